package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// V is a vector register. Functions below return fresh ones, so bodies read
// like expressions; avo assigns the registers.
type V = reg.VecVirtual

// M is a lane mask: a vector of ones and zeros under AVX2 and NEON, a K register
// under AVX-512.
type M = reg.Register

// vk emits the vector code of one function at one width.
type vk struct {
	ctx    *build.Context
	bits   int
	double bool // lanes are float64
	fn     fn
	consts map[string]Mem
	labels int
	stream bool // stores bypass the caches
	ahead  bool // fetch what lies behind the first operand, the next row of a matrix
	k      *neonState
}

func (v *vk) wide() bool { return v.bits == 512 }

func (v *vk) level() string {
	switch {
	case v.wide():
		return "AVX512"
	case v.neon():
		return "NEON"
	}
	return "AVX2"
}

func (v *vk) es() int {
	if v.double {
		return 8
	}
	return 4
}

func (v *vk) lanes() int { return v.bits / 8 / v.es() }

// as returns the emitter for the other lane type.
func (v *vk) as(double bool) *vk {
	w := *v
	w.double = double
	return &w
}

func (v *vk) reg() V {
	switch {
	case v.wide():
		return v.ctx.ZMM()
	case v.neon():
		return v.ctx.XMM()
	}
	return v.ctx.YMM()
}

func (v *vk) label(s string) string {
	v.labels++
	return fmt.Sprintf("%s%d", s, v.labels)
}

// ins emits an instruction; "PS" at its end becomes "PD" for float64 lanes,
// and "_D" a bitwise instruction's "Q" form.
func (v *vk) ins(name string, ops ...Op) {
	if v.double {
		if s, ok := strings.CutSuffix(name, "PS"); ok {
			name = s + "PD"
		}
	}
	m := reflect.ValueOf(v.ctx).MethodByName(name)
	if v.wide() && slices.ContainsFunc(ops, isConstant) {
		// A vector of constants may lie across two cache lines, one of them cannot.
		if b := reflect.ValueOf(v.ctx).MethodByName(name + "_BCST"); b.IsValid() {
			m = b
		}
	}
	if !m.IsValid() {
		panic("no instruction " + name)
	}
	var args []reflect.Value
	for _, o := range ops {
		args = append(args, reflect.ValueOf(o))
	}
	m.Call(args)
}

// constant places 64-bit or 32-bit words, repeated to fill a vector, in the
// read-only data.
func (v *vk) constant(word uint64, size int) Mem {
	key := fmt.Sprintf("c%d_%0*x", size*8, size*2, word)
	if v.wide() {
		key += "w"
	}
	if v.neon() {
		return Mem{Symbol: Symbol{Name: key}}
	}
	if m, ok := v.consts[key]; ok {
		return m
	}
	m := v.ctx.StaticGlobal(key)
	v.ctx.DataAttributes(build.RODATA | build.NOPTR)
	for o := 0; o < v.bits/8; o += size {
		if size == 4 {
			v.ctx.AddDatum(o, U32(word))
		} else {
			v.ctx.AddDatum(o, U64(word))
		}
	}
	v.consts[key] = m
	return m
}

// c is a floating-point constant in memory.
func (v *vk) c(x float64) Op {
	if v.double {
		return v.constant(math.Float64bits(x), 8)
	}
	return v.constant(uint64(math.Float32bits(float32(x))), 4)
}

// ci is an integer constant in memory, of the lanes' size.
func (v *vk) ci(x int64) Op {
	if v.double {
		return v.constant(uint64(x), 8)
	}
	return v.constant(uint64(uint32(x)), 4)
}

// isConstant reports whether o is a vector of constants.
func isConstant(o Op) bool {
	m, ok := o.(Mem)
	return ok && (strings.HasPrefix(m.Symbol.Name, "c32_") || strings.HasPrefix(m.Symbol.Name, "c64_"))
}

// loadConstant is the instruction that loads one into a register of 512 bits.
func loadConstant(m Mem) string {
	if strings.HasPrefix(m.Symbol.Name, "c64_") {
		return "VBROADCASTSD"
	}
	return "VBROADCASTSS"
}

func isMem(o Op) bool { _, ok := o.(Mem); return ok }

// in puts an operand into a register if it is not in one.
func (v *vk) in(o Op) V {
	if r, ok := o.(V); ok {
		return r
	}
	if v.neon() && isConstant(o) {
		return v.held(o.(Mem))
	}
	return v.load(o.(Mem))
}

func (v *vk) load(m Mem) V { return v.copy(m) }

func (v *vk) copy(a Op) V {
	if v.neon() {
		return v.neonCopy(a)
	}
	d := v.reg()
	if v.wide() && isConstant(a) {
		reflect.ValueOf(v.ctx).MethodByName(loadConstant(a.(Mem))).Call([]reflect.Value{reflect.ValueOf(a), reflect.ValueOf(d)})
	} else {
		v.ctx.VMOVUPS(a, d)
	}
	return d
}

// bin emits d = x op y; y may be in memory.
func (v *vk) bin(name string, x, y Op) V {
	if v.neon() {
		return v.neonBin(name, x, y)
	}
	d := v.reg()
	v.ins(name, y, v.in(x), d)
	return d
}

func (v *vk) add(x, y Op) V { return v.bin("VADDPS", x, y) }
func (v *vk) sub(x, y Op) V { return v.bin("VSUBPS", x, y) }
func (v *vk) mul(x, y Op) V { return v.bin("VMULPS", x, y) }
func (v *vk) div(x, y Op) V { return v.bin("VDIVPS", x, y) }

// max and min are the machine's: if either operand is NaN the result is y, or
// with NEON NaN.
func (v *vk) max(x, y Op) V { return v.bin("VMAXPS", x, y) }
func (v *vk) min(x, y Op) V { return v.bin("VMINPS", x, y) }

// fma is x*y + z.
func (v *vk) fma(x, y, z Op) V {
	if v.neon() {
		return v.neonFma("fmla", x, y, z)
	}
	if isMem(z) {
		d := v.copy(x)
		v.ins("VFMADD213PS", z, v.in(y), d)
		return d
	}
	d := v.copy(z)
	if isMem(x) {
		x, y = y, x
	}
	v.ins("VFMADD231PS", y, v.in(x), d)
	return d
}

// fnma is z - x*y.
func (v *vk) fnma(x, y, z Op) V {
	if v.neon() {
		return v.neonFma("fmls", x, y, z)
	}
	d := v.copy(z)
	if isMem(x) {
		x, y = y, x
	}
	v.ins("VFNMADD231PS", y, v.in(x), d)
	return d
}

// fms is x*y - z.
func (v *vk) fms(x, y, z Op) V {
	if v.neon() {
		d := v.one("fneg"+v.t(), z)
		v.acc(d, x, y)
		return d
	}
	d := v.copy(x)
	v.ins("VFMSUB213PS", z, v.in(y), d)
	return d
}

// acc adds x*y to the accumulator a in place.
func (v *vk) acc(a V, x, y Op) {
	if v.neon() {
		v.op("fmla"+v.t(), a, v.in(x), v.in(y))
		return
	}
	v.ins("VFMADD231PS", y, v.in(x), a)
}

// accSub takes x*y from a in place.
func (v *vk) accSub(a V, x, y Op) {
	if v.neon() {
		v.op("fmls"+v.t(), a, v.in(x), v.in(y))
		return
	}
	v.ins("VFNMADD231PS", y, v.in(x), a)
}

// accAdd adds x to a in place.
func (v *vk) accAdd(a V, x Op) {
	if v.neon() {
		v.op("fadd"+v.t(), a, a, v.in(x))
		return
	}
	v.ins("VADDPS", x, a, a)
}

// poly evaluates c[0]*x^n + … + c[n] by Horner's rule.
func (v *vk) poly(x V, c ...float64) V {
	d := v.copy(v.c(c[0]))
	for _, k := range c[1:] {
		d = v.horner(d, x, v.c(k))
	}
	return d
}

// poly2 is poly with the even and the odd powers summed apart, which halves
// the chain of dependent instructions. Use it where the chain is the limit.
func (v *vk) poly2(x V, c ...float64) V {
	var a, b []float64 // of the last coefficient's parity, and the other
	for i, k := range c {
		if (len(c)-1-i)%2 == 0 {
			a = append(a, k)
		} else {
			b = append(b, k)
		}
	}
	s := v.mul(x, x)
	return v.fma(v.poly(s, b...), x, v.poly(s, a...))
}

// horner is r*x + c; r may be overwritten.
func (v *vk) horner(r V, x V, c Op) V {
	if v.neon() {
		return v.fma(r, x, c)
	}
	v.ins("VFMADD213PS", c, x, r)
	return r
}

func (v *vk) bit(name string, x, y Op) V {
	if v.wide() {
		s := "D"
		if v.double {
			s = "Q"
		}
		return v.bin("VP"+name+s, x, y)
	}
	return v.bin("V"+name+"PS", x, y)
}

func (v *vk) and(x, y Op) V { return v.bit("AND", x, y) }
func (v *vk) or(x, y Op) V  { return v.bit("OR", x, y) }
func (v *vk) xor(x, y Op) V { return v.bit("XOR", x, y) }

func (v *vk) signMask() Op {
	if v.double {
		return v.ci(math.MinInt64)
	}
	return v.ci(math.MinInt32)
}

func (v *vk) absMask() Op {
	if v.double {
		return v.ci(math.MaxInt64)
	}
	return v.ci(math.MaxInt32)
}

func (v *vk) abs(x Op) V {
	if v.neon() {
		return v.one("fabs"+v.t(), x)
	}
	return v.and(x, v.absMask())
}

func (v *vk) sign(x Op) V { return v.and(x, v.signMask()) }

func (v *vk) neg(x Op) V {
	if v.neon() {
		return v.one("fneg"+v.t(), x)
	}
	return v.xor(x, v.signMask())
}

func (v *vk) zero() V {
	if v.wide() { // avo does not see that VPXORD of a register with itself needs no input
		return v.copy(v.c(0))
	}
	d := v.reg()
	if v.neon() {
		v.op("movi0", d)
	} else {
		v.ctx.VXORPS(d, d, d)
	}
	return d
}

// Predicates of cmp.
const (
	eq    = 0
	lt    = 1
	le    = 2
	unord = 3
	ne    = 4
	nlt   = 5
	nle   = 6
	ge    = 13
	gt    = 14
)

// cmp compares x with y, which may be in memory.
func (v *vk) cmp(pred int, x, y Op) M {
	if v.neon() {
		return v.neonCmp(pred, x, y)
	}
	if v.wide() {
		k := v.ctx.K()
		v.ins("VCMPPS", Imm(uint64(pred)), y, v.in(x), k)
		return k
	}
	d := v.reg()
	v.ins("VCMPPS", Imm(uint64(pred)), y, v.in(x), d)
	return d
}

// blend takes t where m is set, else f.
func (v *vk) blend(m M, t, f Op) V {
	if v.neon() {
		return v.neonBlend(m, t, f)
	}
	d := v.reg()
	if v.wide() {
		v.ins("VBLENDMPS", t, v.in(f), m, d)
	} else {
		v.ins("VBLENDVPS", m, t, v.in(f), d)
	}
	return d
}

// keep is x where m is set, else 0.
func (v *vk) keep(m M, x V) V {
	if v.neon() {
		return v.two("and", m, x)
	}
	d := v.reg()
	if v.wide() {
		v.ins(map[bool]string{false: "VMOVAPS_Z", true: "VMOVAPD_Z"}[v.double], x, m, d)
	} else {
		v.ins("VANDPS", m, x, d)
	}
	return d
}

// Integer lanes of 32 bits (64 for float64).
func (v *vk) iname(s string) string {
	if v.double {
		return s + "Q"
	}
	return s + "D"
}
func (v *vk) iadd(x, y Op) V { return v.bin(v.iname("VPADD"), x, y) }
func (v *vk) isub(x, y Op) V { return v.bin(v.iname("VPSUB"), x, y) }
func (v *vk) shl(x V, n uint64) V {
	if v.neon() {
		return v.neonShift("shl", x, n)
	}
	d := v.reg()
	v.ins(v.iname("VPSLL"), Imm(n), x, d)
	return d
}
func (v *vk) shr(x V, n uint64) V {
	if v.neon() {
		return v.neonShift("ushr", x, n)
	}
	d := v.reg()
	v.ins(v.iname("VPSRL"), Imm(n), x, d)
	return d
}
func (v *vk) toInt32(x V) V {
	if v.neon() {
		return v.one("fcvtns"+v.t(), x)
	}
	d := v.reg()
	v.ctx.VCVTPS2DQ(x, d)
	return d
}

func (v *vk) fromInt32(x Op) V {
	if v.neon() {
		return v.one("scvtf"+v.t(), x)
	}
	d := v.reg()
	v.ctx.VCVTDQ2PS(x, d)
	return d
}

// round rounds to an integer: mode 0 nearest even, 1 down, 2 up, 3 to zero.
func (v *vk) round(x Op, mode uint64) V {
	if v.neon() {
		return v.one([]string{"frintn", "frintm", "frintp", "frintz"}[mode]+v.t(), x)
	}
	d := v.reg()
	if v.wide() {
		v.ins("VRNDSCALEPS", Imm(mode|8), x, d)
	} else {
		v.ins("VROUNDPS", Imm(mode|8), x, d)
	}
	return d
}

// clampHi and clampLo bound x and let NaN through.
func (v *vk) clampHi(x V, c float64) V { return v.min(v.c(c), x) }
func (v *vk) clampLo(x V, c float64) V { return v.max(v.c(c), x) }

// propMax and propMin propagate NaN from either operand.
func (v *vk) propMax(x V, y Op) V {
	if v.neon() {
		return v.max(x, y)
	}
	return v.blend(v.cmp(unord, x, x), x, v.max(x, y))
}

func (v *vk) propMin(x V, y Op) V {
	if v.neon() {
		return v.min(x, y)
	}
	return v.blend(v.cmp(unord, x, x), x, v.min(x, y))
}

// half views a register's lower half.
func (v *vk) low(x V) reg.Register {
	if v.wide() {
		return x.AsY()
	}
	return x.AsX()
}

// high extracts the upper half of x.
func (v *vk) high(x V) reg.Register {
	d := v.reg()
	if v.wide() {
		v.ctx.VEXTRACTF64X4(Imm(1), x, d.AsY())
		return d.AsY()
	}
	v.ctx.VEXTRACTF128(Imm(1), x, d.AsX())
	return d.AsX()
}

// widenLow and widenHigh convert half the float32 lanes of x to float64.
func (v *vk) widenLow(x V) V {
	if v.neon() {
		return v.one("fcvtl", x)
	}
	return v.widen(v.low(x))
}

func (v *vk) widenHigh(x V) V {
	if v.neon() {
		return v.one("fcvtl2", x)
	}
	return v.widen(v.high(x))
}

func (v *vk) widen(half Op) V {
	d := v.reg()
	v.ctx.VCVTPS2PD(half, d)
	return d
}

// narrow rounds two vectors of float64 to one of float32.
func (v *vk) narrow(lo, hi V) V {
	if v.neon() {
		d := v.one("fcvtn", lo)
		v.op("fcvtn2", d, hi)
		return d
	}
	d, t := v.zero(), v.reg() // zeroed, or avo takes the upper half for an input
	if v.wide() {
		v.ctx.VCVTPD2PS(lo, d.AsY())
		v.ctx.VCVTPD2PS(hi, t.AsY())
		v.ctx.VINSERTF64X4(Imm(1), t.AsY(), d, d)
	} else {
		v.ctx.VCVTPD2PSY(lo, d.AsX())
		v.ctx.VCVTPD2PSY(hi, t.AsX())
		v.ctx.VINSERTF128(Imm(1), t.AsX(), d, d)
	}
	return d
}
