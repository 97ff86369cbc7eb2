package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// Elementary functions on float32 lanes. Each reduces its argument to a small
// interval, evaluates a polynomial there with fused multiply-adds, and undoes
// the reduction. Coefficients are minimax fits; the errors are measured over
// all exponents by vec's tests.

const (
	log2e = 1.44269504
	ln2Hi = 0.693145752 // 0x1.62e400p-1: products with |n| < 2^9 are exact
	ln2Lo = 1.42860677e-6
)

// The fits of opGelu: F in powers of u - geluCenter, and erf(x/√2)/(2x) in
// powers of x².
const (
	geluSwitch = 0.7
	geluCenter = 0.43359375
)

var (
	geluPoly = []float64{0.1284031123, 0.1597178131, -0.2330327332, -0.04382051155, 0.2524447739, -0.08609896898, -0.281624794, 0.1728495657, 0.6436548829, 0.6289868951}
	geluErf  = []float64{0.000101046740225, -0.00117926504118, 0.0099716880229, -0.066490227538, 0.398942278402}
)

// nearest is 1.5·2²³: a number of less than 2²² added to it is rounded to an
// integer, which is found in the sum's low bits, and again by subtracting.
const nearest = 0x1.8p23

// expReduce splits x = n*ln2 + r and returns r and t = n + nearest. lo, if any,
// is a small correction to x.
func (v *vk) expReduce(x V, lo Op) (r, t V) {
	t = v.fma(x, v.c(log2e), v.c(nearest))
	n := v.sub(t, v.c(nearest))
	r = v.fnma(n, v.c(ln2Hi), x)
	if lo != nil { // rounds once, like the other
		return v.add(r, v.fnma(n, v.c(ln2Lo), lo)), t
	}
	v.accSub(r, n, v.c(ln2Lo))
	return r, t
}

// expm1Poly is e^r - 1 for |r| <= ln2/2.
func (v *vk) expm1Poly(r V) V {
	q := v.poly(r, 1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1)
	return v.fma(v.mul(r, r), q, r)
}

// expPoly is e^r for |r| <= ln2/2.
func (v *vk) expPoly(r V) V {
	return v.poly(r, 1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1, 1)
}

// pow2 is 2^(n+k) for the n in the low bits of t, -126 <= n+k <= 127. Its result for
// a NaN is not a NaN: whatever it is multiplied with must be one.
func (v *vk) pow2(t V, k int64) V { return v.iadd(v.shl(t, 23), v.ci(one(k))) }

// one is the bits of 2^k.
func one(k int64) int64 { return (127 + k) << 23 }

func (v *vk) exp(x V) V {
	x = v.clampLo(v.clampHi(x, 89.5), -120)
	r, t := v.expReduce(x, nil)
	// 2^n in two factors of about the same size. The product with the first is exact;
	// the product with the second rounds once, to a denormal, zero or infinity where
	// need be.
	h := v.fma(x, v.c(log2e/2), v.c(nearest))
	return v.mul(v.mul(v.expPoly(r), v.pow2(v.isub(t, h), 0)), v.pow2(h, 0))
}

// expDown is exp for x <= 40: all its factors 2^n are too small in the same way.
func (v *vk) expDown(x V) V {
	r, t := v.expReduce(v.clampLo(x, -120), nil)
	return v.mul(v.mul(v.expPoly(r), v.pow2(t, 64)), v.c(0x1p-64))
}

// expNear is exp for |x| < 87.
func (v *vk) expNear(x V) V {
	r, t := v.expReduce(x, nil)
	return v.mul(v.expPoly(r), v.pow2(t, 0))
}

func opExp(v *vk, x V) V { return v.exp(x) }

func opExpm1(v *vk, x V) V {
	y := v.clampLo(v.clampHi(x, 89), -18)
	r, t := v.expReduce(y, nil)
	q := v.poly(r, 0.0001989098271, 0.001393364269, 0.008333310933, 0.04166646499, 0.1666666668, 0.5)
	p := v.fma(v.mul(r, r), q, r) // e^r - 1
	// 2^n*p + 2^n - 1, halved so that 2^n does not overflow.
	h := v.pow2(t, -1)
	e := v.fma(h, p, v.sub(h, v.c(0.5)))
	e = v.add(e, e)
	// Where x is tiny it is the result; this also keeps -0 and denormals.
	return v.blend(v.cmp(lt, v.abs(x), v.c(0x1p-25)), x, e)
}

// logPoly is log(1+m) for m in [-1/3, 1/3].
func (v *vk) logPoly(m V) V {
	s := v.mul(m, m)
	r := v.poly(s, -0.130310059, -0.121483512, -0.166846126, -0.249996200)
	t := v.poly(s, 0.140869141, 0.139814854, 0.200120345)
	r = v.fma(t, m, r)
	r = v.horner(r, m, v.c(0.333331972))
	r = v.horner(r, m, v.c(-0.5))
	return v.fma(r, s, m)
}

func opLog(v *vk, x V) V {
	// Bring denormals into the normal range.
	tiny := v.cmp(lt, x, v.c(0x1p-126))
	a := v.blend(tiny, v.mul(x, v.c(0x1p23)), x)
	i := v.keep(tiny, v.copy(v.c(-23)))
	e := v.and(v.isub(a, v.ci(0x3f2aaaab)), v.ci(-0x800000))
	m := v.sub(v.isub(a, e), v.c(1))
	i = v.fma(v.fromInt32(e), v.c(0x1p-23), i)
	r := v.fma(i, v.c(math.Ln2), v.logPoly(m))
	// Inf and NaN are their own logarithm, 0 has -Inf, below is NaN.
	r = v.blend(v.cmp(nlt, x, v.c(math.Inf(1))), x, r)
	r = v.blend(v.cmp(eq, x, v.zero()), v.c(math.Inf(-1)), r)
	return v.blend(v.cmp(lt, x, v.zero()), v.c(math.NaN()), r)
}

func opLog1p(v *vk, x V) V {
	u := v.add(x, v.c(1))
	e := v.and(v.isub(u, v.ci(0x3f2aaaab)), v.ci(-0x800000))
	// m = (1+x)*2^-e - 1, without the rounding of 1+x.
	m := v.isub(x, e)
	four := v.isub(v.c(4), e)
	m = v.add(m, v.fma(four, v.c(0.25), v.c(-1)))
	// x = 0 with e = 0 is exact; the scaled x is wrong only for x = 0 elsewhere.
	i := v.mul(v.fromInt32(e), v.c(0x1p-23))
	r := v.fma(i, v.c(math.Ln2), v.logPoly(m))
	r = v.blend(v.cmp(nlt, x, v.c(math.Inf(1))), x, r)
	r = v.blend(v.cmp(lt, v.abs(x), v.c(0x1p-25)), x, r)
	r = v.blend(v.cmp(eq, x, v.c(-1)), v.c(math.Inf(-1)), r)
	return v.blend(v.cmp(lt, x, v.c(-1)), v.c(math.NaN()), r)
}

func opTanh(v *vk, x V) V {
	t := v.abs(x)
	// From 0.65 on: 1 - 2/(e^2t + 1), whose error halves in the sum.
	e := v.expNear(v.clampHi(v.add(t, t), 40))
	big := v.sub(v.c(1), v.div(v.c(2), v.add(e, v.c(1))))
	// Below: an odd polynomial.
	s := v.mul(x, x)
	p := v.poly(s, 0.002010665834, -0.008028397337, 0.02163868956, -0.0539351441, 0.13333112, -0.3333332837)
	p = v.mul(p, s)
	small := v.fma(p, x, x)
	return v.or(v.blend(v.cmp(lt, t, v.c(0.65)), small, big), v.sign(x))
}

// logistic is num/(1 + e^(z+lo)), num 1 if nil.
func (v *vk) logistic(num, z V, lo V) V {
	z = v.clampLo(v.clampHi(z, 112), -40) // beyond, the result is num or 0
	var l Op
	if lo != nil {
		l = lo
	}
	r, t := v.expReduce(z, l)
	m := v.expm1Poly(r)
	// The denominator is 1 + s + s*m, s = 2^n. If that is large, everything is
	// divided by 2^64, and so is the result in the end: it rounds only there if
	// it is denormal.
	far := v.keep(v.cmp(gt, t, v.c(nearest+63)), v.copy(v.ci(64<<23)))
	unit := v.isub(v.ci(one(0)), far)
	s := v.iadd(v.shl(t, 23), unit)
	// Rounding is what counts here, so there is only one: sum + lost is exactly
	// unit + s, and m is small.
	sum := v.add(s, unit)
	lost := v.sub(unit, v.sub(sum, s))
	rest := v.fma(s, m, lost)
	d := v.add(sum, rest)
	if num == nil {
		return v.mul(v.div(v.c(1), d), unit)
	}
	// A numerator makes that rounding count up to twice as much, so it is put
	// back: the denominator's loss over the denominator, roughly. (An infinite
	// quotient stays.)
	q := v.div(num, d)
	off := v.mul(v.sub(rest, v.sub(d, sum)), v.roughRecip(d))
	return v.mul(v.fnma(off, v.clampHi(q, math.MaxFloat32), q), unit)
}

// roughRecip is 1/x to some 11 bits, 8 with NEON.
func (v *vk) roughRecip(x V) V {
	if v.neon() {
		return v.one("frecpe"+v.t(), x)
	}
	d := v.reg()
	if v.wide() {
		v.ctx.VRCP14PS(x, d)
	} else {
		v.ctx.VRCPPS(x, d)
	}
	return d
}

func opSigmoid(v *vk, x V) V { return v.logistic(nil, v.neg(x), nil) }

// opSilu bounds the numerator below so that -Inf ends at 0.
func opSilu(v *vk, x V) V { return v.logistic(v.clampLo(x, -200), v.neg(x), nil) }

func opErf(v *vk, x V) V {
	t := v.abs(x)
	s := v.mul(x, x)
	small := v.poly(s, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
	small = v.fma(small, x, x)
	// 1 - e^r, r the logarithm of erfc.
	z := v.clampHi(t, 4.1)
	zz := v.mul(z, z)
	r := v.poly(z, -1.72853470e-5, 3.83197126e-4)
	u := v.poly(z, -3.88396438e-3, 2.42546219e-2)
	r = v.fma(r, zz, u)
	r = v.horner(r, z, v.c(-1.06777877e-1))
	r = v.horner(r, z, v.c(-6.34846687e-1))
	r = v.horner(r, z, v.c(-1.28717512e-1))
	if v.neon() {
		r = v.fms(r, z, z)
	} else {
		v.ins("VFMSUB213PS", z, z, r)
	}
	big := v.or(v.sub(v.c(1), v.expNear(r)), v.sign(x))
	return v.blend(v.cmp(le, t, v.c(0.927734375)), small, big)
}

// opGelu uses gelu(x) = max(x, 0) - t*Q(t), t = |x|, Q(t) = erfc(t/√2)/2,
// which cancels nothing on the negative side. Near 0, where it would, the erf
// polynomial takes over.
func opGelu(v *vk, x V) V {
	t := v.clampHi(v.abs(x), 15) // the result is 0 or x long before
	q := v.mul(t, t)
	// t*Q(t) = y * F(u) * e^(-t²/2), y = t/(2+t), u = 2/(2+t) = 1 - y. The
	// two factors do not wait for each other, which makes this twice as fast
	// as one exponential of a sum.
	d := v.add(t, v.c(2))
	y := v.div(t, d)
	u := v.sub(v.c(1), y)
	last := len(geluPoly) - 1
	w := v.sub(v.c(1-geluCenter), y) // exact, which u is not
	b := v.poly2(w, geluPoly[:last]...)
	f := v.fma(b, w, v.c(geluPoly[last]))
	// The result is within 2 ulp only if what the parts lose to rounding is put
	// back in the end. f loses this:
	fl := v.fma(b, w, v.sub(v.c(geluPoly[last]), f))
	// y, in the sum and in the quotient, this; 1/d is u/2:
	yl := v.fnma(y, d, t)
	yl = v.fnma(y, v.sub(t, v.sub(d, v.c(2))), yl)
	yl = v.mul(yl, v.mul(u, v.c(0.5)))
	// y*f is p + pl. u has y's error, the other way round, and b is about F'.
	p := v.mul(y, f)
	pl := v.fma(yl, v.fnma(y, b, f), v.fms(y, f, p))
	pl = v.fma(y, fl, pl)
	// -t²/2 = n*ln2 - r/2, with what t² lost to rounding added to r.
	k := v.fma(q, v.c(-0.5*log2e), v.c(nearest))
	n := v.sub(k, v.c(nearest))
	r := v.add(v.fma(n, v.c(2*ln2Hi), q), v.fma(n, v.c(2*ln2Lo), v.fms(t, t, q)))
	m := v.expm1Poly(v.mul(r, v.c(-0.5)))
	g := v.add(p, v.fma(p, m, pl))
	h := v.fma(q, v.c(-0.25*log2e), v.c(nearest)) // in two steps, the last of which may end below the normal numbers
	g = v.mul(v.mul(g, v.pow2(v.isub(k, h), 0)), v.pow2(h, 0))
	big := v.sub(opRelu(v, x), g)
	// x/2 + x²*(erf(x/√2)/(2x))
	small := v.fma(v.poly(q, geluErf...), q, v.mul(x, v.c(0.5)))
	return v.blend(v.cmp(le, t, v.c(geluSwitch)), small, big)
}

// opGeluTanh is x/(1 + e^-2z), z = √(2/π)(x + 0.044715x³), with z carried in
// two words so that the far negative side keeps its precision.
func opGeluTanh(v *vk, x V) V {
	c1 := -2 * math.Sqrt(2/math.Pi)
	c2 := c1 * 0.044715
	c1h, c2h := float64(float32(c1)), float64(float32(c2))
	y := v.clampLo(v.clampHi(x, 14), -14) // the exponential is 0 or Inf long before
	s := v.mul(y, y)
	sl := v.fms(y, y, s)
	// c1 + c2*y² = t + tl
	q := v.mul(s, v.c(c2h))
	ql := v.fms(s, v.c(c2h), q)
	t := v.add(q, v.c(c1h))
	b := v.sub(t, q)
	tl := v.add(v.sub(q, v.sub(t, b)), v.sub(v.c(c1h), b))
	tl = v.add(tl, ql)
	tl = v.fma(sl, v.c(c2h), tl)
	tl = v.fma(s, v.c(c2-c2h), tl)
	tl = v.add(tl, v.c(c1-c1h))
	wh := v.mul(y, t)
	wl := v.fma(y, tl, v.fms(y, t, wh))
	return v.logistic(v.clampLo(x, -200), wh, wl)
}

// sinCos emits sine (add 0) or cosine (add 1) for |x| <= 48000; vec sends
// larger arguments elsewhere.
func sinCos(add int64) func(v *vk, x V) V {
	return func(v *vk, x V) V {
		j := v.toInt32(v.mul(x, v.c(2/math.Pi)))
		n := v.fromInt32(j)
		r := v.fnma(n, v.c(0x1.921fb0p+00), x)
		v.accSub(r, n, v.c(0x1.5110b4p-22))
		v.accSub(r, n, v.c(0x1.846988p-48))
		s := v.mul(r, r)
		c := v.poly(s, 2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -0.5, 1)
		q := v.poly(s, 2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1)
		q = v.or(v.fma(q, v.mul(r, s), r), v.sign(r)) // for the sake of -0
		if add != 0 {
			j = v.iadd(j, v.ci(add))
		}
		// Odd quadrants take the cosine; the second bit is the sign.
		var y V
		switch {
		case v.wide():
			k := v.ctx.K()
			one := v.copy(v.ci(1))
			v.ctx.VPTESTMD(one, j, k)
			y = v.blend(k, c, q)
		case v.neon():
			y = v.blend(v.two("cmtst.4s", j, v.ci(1)), c, q)
		default:
			y = v.blend(v.shl(j, 31), c, q)
		}
		return v.xor(y, v.and(v.shl(j, 30), v.signMask()))
	}
}

// pow computes in float64 lanes: log2 of |x| to about 2^-45, times y, and 2 to
// that. Special cases follow C's pow.
func (v *vk) pow(x V, yo Op) V {
	y := v.in(yo)
	ax := v.abs(x)
	w := v.as(true)
	halves := func(x, y V) V {
		return w.exp2Log2(x, y)
	}
	lo := halves(v.widenLow(ax), v.widenLow(y))
	hi := halves(v.widenHigh(ax), v.widenHigh(y))
	r := v.narrow(lo, hi)
	// Odd y passes x's sign on; a negative finite x needs an integer y.
	neg := v.cmp(lt, x, v.zero())
	isInt := v.cmp(eq, v.round(y, 3), y)
	half := v.mul(y, v.c(0.5))
	evenOrNot := v.cmp(eq, v.round(half, 3), half)
	odd := v.blend(evenOrNot, v.zero(), v.keep(isInt, v.copy(v.signMask())))
	r = v.xor(r, v.and(odd, x))
	finite := v.cmp(gt, x, v.c(math.Inf(-1)))
	bad := v.keep(finite, v.keep(neg, v.copy(v.c(1))))
	bad = v.blend(isInt, v.zero(), bad)
	r = v.blend(v.cmp(gt, bad, v.zero()), v.c(math.NaN()), r)
	// |x| = 1 with infinite y, x = 1 or y = 0 with anything, give 1.
	one := v.c(1)
	r = v.blend(v.cmp(eq, v.keep(v.cmp(eq, ax, one), v.abs(y)), v.c(math.Inf(1))), one, r)
	r = v.blend(v.cmp(eq, x, one), one, r)
	return v.blend(v.cmp(eq, y, v.zero()), one, r)
}

// exp2Log2 is 2^(y*log2(x)) for float64 lanes holding x >= 0.
func (w *vk) exp2Log2(x, y V) V {
	// x = 2^e * m, m in [√½, √2). float32 values are never denormal here.
	const off = 0x3fe6a09e667f3bcd
	d := w.isub(x, w.ci(off))
	e := w.and(d, w.ci(-1<<52))
	m := w.isub(x, e)
	// e>>52 as float64: its top 12 bits, biased, put into a number's mantissa.
	k := w.shr(w.iadd(d, w.ci(1024<<52)), 52)
	k = w.or(k, w.ci(0x4330000000000000))
	ef := w.sub(k, w.c(0x1p52+1024))
	s := w.div(w.sub(m, w.c(1)), w.add(m, w.c(1)))
	z := w.mul(s, s)
	// log2(m) = 2/ln2 * atanh(s)
	c := 2 / math.Ln2
	p := w.poly(z, c/17, c/15, c/13, c/11, c/9, c/7, c/5, c/3, c)
	l := w.fma(p, s, ef)
	// 0, Inf and NaN.
	l = w.blend(w.cmp(nlt, x, w.c(math.Inf(1))), x, l)
	l = w.blend(w.cmp(eq, x, w.zero()), w.c(math.Inf(-1)), l)
	t := w.mul(l, y)
	t = w.clampLo(w.clampHi(t, 200), -200)
	n := w.round(t, 0)
	f := w.sub(t, n)
	ln := math.Ln2
	var q []float64
	for i := 11; i >= 0; i-- {
		q = append(q, math.Pow(ln, float64(i))/fact(i))
	}
	r := w.poly(f, q...)
	// 2^n: n plus 2^52+2^51 has the integer in its low bits.
	b := w.add(n, w.c(0x1.8p52+1023))
	return w.mul(r, w.shl(b, 52))
}

func fact(n int) float64 {
	f := 1.0
	for i := 2; i <= n; i++ {
		f *= float64(i)
	}
	return f
}

func emitPow(v *vk) {
	v.elementwise("a b", 1, func(in ...Op) V { return v.pow(in[0].(V), in[1]) }, nil)
}

func emitPowS(v *vk) {
	s := v.scalar("s")
	v.elementwise("a", 1, func(in ...Op) V { return v.pow(in[0].(V), s) }, nil)
}
