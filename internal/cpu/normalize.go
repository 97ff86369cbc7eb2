package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// Normalization sees x as rows, each with statistics of its own. A row is made of
// units: runs of elements that lie together and share a weight and a bias, or
// one run in which every element has its own. Units are worked on in pieces that
// fit the fastest cache, in which elements of half precision are converted: a row is
// read several times, and nothing of its size is written but the result.

func init() {
	registerNorm(op.Normalized, op.NormalizeGrad)
	registerNorm(op.BatchNorm, op.BatchNormGrad)
	registerNorm(op.AddNormalize, op.NormalizeGradAdd)
}

func registerNorm(id, grad op.ID) {
	register := func(id op.ID, d dtype.DType, k kernel) { register(id, d, ended(k)) }
	register(id, dtype.Float32, normalizing(nativeLines[float32](), (*norm[float32, float32]).forward))
	register(id, dtype.Float64, normalizing(nativeLines[float64](), (*norm[float64, float64]).forward))
	register(grad, dtype.Float32, normalizing(nativeLines[float32](), (*norm[float32, float32]).backward))
	register(grad, dtype.Float64, normalizing(nativeLines[float64](), (*norm[float64, float64]).backward))
	for _, h := range halfTypes {
		register(id, h.dtype, h.norm)
		register(grad, h.dtype, h.normGrad)
	}
}

// normRows is the geometry.
type normRows struct {
	rows, n           int  // n elements per row
	units, unit       int  // units of a row, and their size
	rowStep, unitStep int  // from one to the next
	perUnit, pieces   int  // pieces of a unit, and of a row
	params, perRow    int  // parameters in all, and those of a row, which begin at (row·perRow)%params
	vector            bool // every element of a row has its own
}

// lastAxesOf is the geometry of Normalized.
func lastAxesOf(a op.Normalize, shape []int) normRows {
	n := op.Elements(shape[a.From:])
	g := normRows{rows: op.Elements(shape[:a.From]), n: n, rowStep: n, units: 1, unit: n,
		params: op.Elements(shape[a.Params[0]:a.Params[1]]), perRow: op.Elements(shape[a.From:a.Params[1]])}
	switch inner := op.Elements(shape[a.Params[1]:]); {
	case g.perRow == 1:
	case !a.Weight && !a.Bias && !a.GradBias:
		g.params, g.perRow = 1, 1
	case inner == 1:
		g.vector = true
	default:
		g.units, g.unit, g.unitStep = g.perRow, inner, inner
	}
	return g.cut()
}

// channelsOf is the geometry of BatchNorm, for x (N, C, …) or for x that was laid
// out again as (C, N, …).
func channelsOf(shape []int, turned bool) normRows {
	n, c, inner := shape[0], shape[1], op.Elements(shape[2:])
	g := normRows{rows: c, n: n * inner, params: c, perRow: 1, units: n, unit: inner, rowStep: inner, unitStep: c * inner}
	if turned {
		g.units, g.unit, g.rowStep = 1, g.n, g.n
	}
	return g.cut()
}

// cut divides units into pieces.
func (g normRows) cut() normRows {
	g.perUnit = max(1, (g.unit-1)/segment+1)
	g.pieces = g.units * g.perUnit
	return g
}

// at returns where piece i of row r is, its size, and its (first) parameter.
func (g *normRows) at(r, i int) (off, n, p int) {
	u, b := i/g.perUnit, i%g.perUnit*segment
	p = r * g.perRow % g.params
	switch {
	case g.vector:
		p += b
	case g.perRow > 1:
		p += u
	}
	return r*g.rowStep + u*g.unitStep + b, min(segment, g.unit-b), p
}

// shortUnit is the size of units up to which channels are laid out again, so that
// each is one unit: a call for every few elements would cost more.
const shortUnit = 32

// norm is one call.
type norm[S any, T float] struct {
	normRows
	io lineIO[S, T]
	op.Normalize
	x, g, out            []S // out: the result, or x's gradient
	weight, bias         []T
	mean, rstd           []T // results of the op, or operands of its gradient; nil where there are none
	batchMean, variance  []T // the same, for programs
	oldMean, oldVariance []T // running statistics, which those become; nil where there are none
	gradWeight, gradBias []S
	a, b                 []S  // AddNormalize: what x is the sum of
	added                []S  // NormalizeGradAdd: what is added to the result
	stream               bool // the result does not fit the caches, and is written past them
}

// normalizing makes a kernel: it lays out operands for f.
func normalizing[S any, T float](io lineIO[S, T], f func(j *norm[S, T])) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		j := &norm[S, T]{io: io, Normalize: c.Attrs.(op.Normalize)}
		var used []*scratch
		defer func() { release(used...) }()
		grad := c.Op == op.NormalizeGrad || c.Op == op.BatchNormGrad || c.Op == op.NormalizeGradAdd
		turned := false
		if c.Op == op.BatchNorm || c.Op == op.BatchNormGrad {
			turned = op.Elements(c.Out.Shape[2:]) <= shortUnit
			j.normRows = channelsOf(c.Out.Shape, turned)
		} else {
			j.normRows = lastAxesOf(j.Normalize, c.Out.Shape)
		}
		operand := func(v *backend.View) []S {
			if turned {
				v = channelsFirst(v)
			}
			d, s := denseOf[S](v)
			used = append(used, s)
			return d
		}
		param := func(v *backend.View) []T {
			d, s := denseOf[S](v)
			used = append(used, s)
			if io.load == nil {
				return convert[T](d)
			}
			s, wide := scratchOf[T](len(d))
			used = append(used, s)
			io.load(wide, d)
			return wide
		}
		in, more := c.In, c.More
		next := func() *backend.View { v := &in[0]; in = in[1:]; return v }
		result := func() *backend.View { v := &more[0]; more = more[1:]; return v }
		if grad {
			j.g = operand(next())
		}
		if c.Op == op.AddNormalize {
			j.a, j.b, j.x = operand(next()), operand(next()), elements[S](result(), n)
		} else {
			j.x = operand(next())
		}
		if j.Weight {
			j.weight = param(next())
		}
		stat := func() []T {
			d, s := denseOf[T](next())
			used = append(used, s)
			return d
		}
		if grad {
			if !j.RMS {
				j.mean = stat()
			}
			j.rstd = stat()
		} else if j.Bias {
			j.bias = param(next())
		}
		if j.Running {
			j.oldMean, j.oldVariance = stat(), stat()
		}
		if c.Op == op.NormalizeGradAdd {
			j.added = operand(next())
		}
		switch {
		case grad:
			if j.GradWeight {
				j.gradWeight = elements[S](result(), j.params)
			}
			if j.GradBias {
				j.gradBias = elements[S](result(), j.params)
			}
		case len(more) > 0:
			if !j.RMS {
				j.mean = elements[T](result(), j.rows)
			}
			j.rstd = elements[T](result(), j.rows)
			if c.Op == op.BatchNorm {
				j.batchMean = elements[T](result(), j.rows)
				j.variance = elements[T](result(), j.rows)
			}
		}
		if j.out = elements[S](&c.Out, n); !turned {
			_, single := any(j.out).([]float32)
			j.stream = single && n >= vec.StreamBytes/4 && j.added == nil
			f(j)
			return nil
		}
		final := j.out
		s, room := scratchOf[S](n)
		used = append(used, s)
		j.out = room
		f(j)
		turnBack(final, room, c.Out.Shape)
		return nil
	}
}

// channelsFirst is v (N, C, …) as (C, N, …).
func channelsFirst(v *backend.View) *backend.View {
	t := *v
	t.Shape, t.Strides = append([]int{}, v.Shape...), append([]int{}, v.Strides...)
	t.Shape[0], t.Shape[1] = v.Shape[1], v.Shape[0]
	t.Strides[0], t.Strides[1] = v.Strides[1], v.Strides[0]
	return &t
}

// turnBack lays out src (C, N, …) as dst, of the given shape (N, C, …).
func turnBack[S any](dst, src []S, shape []int) {
	n, c, inner := shape[0], shape[1], op.Elements(shape[2:])
	pool.For(n, max(1, grainCheap/(c*inner)), func(lo, hi int) {
		if inner == 1 {
			transpose(dst[lo*c:], c, src, lo, n, hi-lo, c)
			return
		}
		for i := lo; i < hi; i++ {
			for k := range c {
				copy(dst[(i*c+k)*inner:][:inner], src[(k*n+i)*inner:][:inner])
			}
		}
	})
}

// get returns a piece of stored elements to compute with: as it lies, or in buf.
func (j *norm[S, T]) get(buf []T, from []S, off, n int) []T {
	if j.io.load == nil {
		return convert[T](from[off : off+n])
	}
	j.io.load(buf[:n], from[off:off+n])
	return buf[:n]
}

// to returns where a piece of the result is computed: where it belongs, or buf, from
// which done stores it.
func (j *norm[S, T]) to(buf []T, off, n int) []T {
	if j.io.load == nil {
		return convert[T](j.out[off : off+n])
	}
	return buf[:n]
}

func (j *norm[S, T]) done(piece []T, off int) {
	if j.io.store != nil {
		j.io.store(j.out[off:off+len(piece)], piece)
	}
}

// normBuffers are a thread's buffers: of x, of g, of the result and of something else.
func normBuffers[T float]() (*scratch, [4][]T) {
	s, all := scratchOf[T](4 * segment)
	var b [4][]T
	for i := range b {
		b[i] = all[i*segment:][:segment]
	}
	return s, b
}

// forRows calls f for all rows, short ones on several threads; long ones are divided
// by f.
func (j *norm[S, T]) forRows(f func(r int, b *[4][]T)) {
	if j.n >= longLine {
		for r := range j.rows {
			f(r, nil)
		}
		return
	}
	pool.For(j.rows, max(1, grainExpensive/j.n), func(lo, hi int) {
		s, b := normBuffers[T]()
		for r := lo; r < hi; r++ {
			f(r, &b)
		}
		s.free()
	})
}

// inPieces calls f for ranges of a long row's pieces on several threads and adds up
// what it returns, in order.
func (j *norm[S, T]) inPieces(f func(lo, hi int, b *[4][]T) float64) float64 {
	grain := max(1, part/max(1, j.n/j.pieces))
	partial := make([]float64, (j.pieces-1)/grain+1)
	pool.For(j.pieces, grain, func(lo, hi int) {
		s, b := normBuffers[T]()
		partial[lo/grain] = f(lo, hi, &b)
		s.free()
	})
	sum := 0.0
	for _, p := range partial {
		sum += p
	}
	return sum
}

func (j *norm[S, T]) forward() {
	j.forRows(func(r int, b *[4][]T) {
		if b == nil {
			j.forwardLong(r)
			return
		}
		j.addUp(r, 0, j.pieces, b)
		n, mean := float64(j.n), 0.0
		if !j.RMS {
			mean = j.sum(r, 0, j.pieces, b) / n
		}
		squares := j.squares(r, 0, j.pieces, mean, b)
		j.apply(r, 0, j.pieces, T(mean), j.keep(r, mean, squares), b)
	})
}

// forwardLong is forward of a long row.
func (j *norm[S, T]) forwardLong(r int) {
	n, mean := float64(j.n), 0.0
	if j.a != nil {
		j.inPieces(func(lo, hi int, b *[4][]T) float64 { j.addUp(r, lo, hi, b); return 0 })
	}
	if !j.RMS {
		mean = j.inPieces(func(lo, hi int, b *[4][]T) float64 { return j.sum(r, lo, hi, b) }) / n
	}
	squares := j.inPieces(func(lo, hi int, b *[4][]T) float64 { return j.squares(r, lo, hi, mean, b) })
	rstd := j.keep(r, mean, squares)
	j.inPieces(func(lo, hi int, b *[4][]T) float64 { j.apply(r, lo, hi, T(mean), rstd, b); return 0 })
}

// keep stores the statistics of a row, as far as they are wanted, and returns
// 1/√(variance + eps).
func (j *norm[S, T]) keep(r int, mean, squares float64) T {
	n := float64(j.n)
	rstd := T(1 / math.Sqrt(squares/n+j.Eps))
	if j.mean != nil {
		j.mean[r] = T(mean)
	}
	if j.rstd != nil {
		j.rstd[r] = rstd
	}
	if j.variance != nil {
		m, v := [1]T{T(mean)}, [1]T{T(squares / (n - 1))}
		if j.Running {
			// By the function of Blend, which a compiled program calls for it. The results
			// may lie where the operands do.
			s := op.Scales{A: 1 - j.Momentum, B: j.Momentum}
			blendOf(m[:], j.oldMean[r:r+1], m[:], s)
			blendOf(v[:], j.oldVariance[r:r+1], v[:], s)
		}
		j.batchMean[r], j.variance[r] = m[0], v[0]
	}
	return rstd
}

// blendOf is the function of Blend for a type that is computed in.
func blendOf[T float](dst, a, b []T, s op.Scales) {
	switch dst := any(dst).(type) {
	case []float32:
		blend32(dst, any(a).([]float32), any(b).([]float32), s)
	case []float64:
		blend64(dst, any(a).([]float64), any(b).([]float64), s)
	}
}

// sum adds up the elements of pieces.
func (j *norm[S, T]) sum(r, lo, hi int, b *[4][]T) (s float64) {
	for i := lo; i < hi; i++ {
		off, n, _ := j.at(r, i)
		s += sumOf(j.get(b[0], j.x, off, n))
	}
	return s
}

// squares adds up the squares of deviations, which do not cancel.
func (j *norm[S, T]) squares(r, lo, hi int, mean float64, b *[4][]T) (s float64) {
	for i := lo; i < hi; i++ {
		off, n, _ := j.at(r, i)
		s += squareDev(j.get(b[0], j.x, off, n), mean)
	}
	return s
}

// apply is (x - mean)·rstd·weight + bias.
func (j *norm[S, T]) apply(r, lo, hi int, mean, rstd T, b *[4][]T) {
	for i := lo; i < hi; i++ {
		off, n, p := j.at(r, i)
		x, dst, scale := j.get(b[0], j.x, off, n), j.to(b[2], off, n), rstd
		if !j.vector && j.weight != nil {
			scale *= j.weight[p]
		}
		if j.stream {
			j.applyStream(dst, x, mean, scale, p, b[2][:n])
			continue
		}
		subMul(dst, x, mean, scale)
		switch {
		case !j.vector:
			if j.bias != nil {
				shift(dst, dst, -j.bias[p])
			}
		case j.weight != nil && j.bias != nil:
			fma(dst, dst, j.weight[p:p+n], j.bias[p:p+n])
		case j.weight != nil:
			times(dst, dst, j.weight[p:p+n])
		case j.bias != nil:
			addTo(dst, j.bias[p:p+n])
		}
		j.done(dst, off)
	}
}

// applyStream is apply past the caches, for float32.
func (j *norm[S, T]) applyStream(dst, x []T, mean, scale T, p int, buf []T) {
	n, to, half := len(dst), any(dst).([]float32), any(buf).([]float32)
	if j.bias == nil && (j.weight == nil || !j.vector) {
		vec.SubMulStreamF32(to, any(x).([]float32), float32(mean), float32(scale))
		return
	}
	subMul(buf, x, mean, scale)
	switch weight, bias := any(j.weight).([]float32), any(j.bias).([]float32); {
	case !j.vector:
		vec.AddSStreamF32(to, half, bias[p])
	case weight != nil && bias != nil:
		vec.FmaStreamF32(to, half, weight[p:p+n], bias[p:p+n])
	case weight != nil:
		vec.MulStreamF32(to, half, weight[p:p+n])
	default:
		vec.AddStreamF32(to, half, bias[p:p+n])
	}
}
