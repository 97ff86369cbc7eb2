package locus

import (
	"math"

	"github.com/locusml/locus/internal/op"
)

// Reductions take the axes to reduce, all if none is named, and take them out.
// The forms that end in Keep leave them with size 1, so that the result
// broadcasts against the operand.

func (t *Tensor) reduce(id op.ID, keep bool, axes []int) *Tensor {
	name := op.Get(id).Name
	t.check(name)
	set, err := op.ResolveAxes(axes, len(t.shape))
	if err != nil {
		fail(name, err, t)
	}
	r := t
	if set != 0 || len(t.shape) == 0 {
		r = apply(id, reduceAttrs[set], t)
	}
	if keep {
		return r
	}
	return r.dropAxes(set, t)
}

// reduceAttrs are the attributes of reductions over every set of axes, made once.
var reduceAttrs = func() (a [1 << MaxRank]op.Attrs) {
	for set := range a {
		a[set] = op.Reduce{Axes: op.AxisSet(set)}
	}
	return a
}()

// dropAxes takes axes of size 1 out of t, which was computed from another tensor.
func (t *Tensor) dropAxes(set op.AxisSet, from *Tensor) *Tensor {
	if set == 0 {
		return t
	}
	to := []int{}
	if left := len(t.shape) - set.Len(); left > 0 {
		to = make([]int, 0, left)
	}
	for i, n := range t.shape {
		if !set.Has(i) {
			to = append(to, n)
		}
	}
	if t.node == nil && t.block != from.block && t.IsContiguous() { // nobody has seen it: no view is needed
		t.shape, t.strides = to, to
		if len(to) > 0 {
			t.strides = op.Strides(to)
		}
		return t
	}
	return t.reshape(to).fresh(from)
}

// Sum adds up.
func (t *Tensor) Sum(axes ...int) *Tensor { return t.reduce(op.Sum, false, axes) }

// SumKeep adds up and keeps the axes.
func (t *Tensor) SumKeep(axes ...int) *Tensor { return t.reduce(op.Sum, true, axes) }

// Prod multiplies.
func (t *Tensor) Prod(axes ...int) *Tensor { return t.reduce(op.Prod, false, axes) }

// Max gives the largest; NaN if one is NaN.
func (t *Tensor) Max(axes ...int) *Tensor { return t.reduce(op.Max, false, axes) }

// MaxKeep gives the largest and keeps the axes.
func (t *Tensor) MaxKeep(axes ...int) *Tensor { return t.reduce(op.Max, true, axes) }

// Min gives the smallest; NaN if one is NaN.
func (t *Tensor) Min(axes ...int) *Tensor { return t.reduce(op.Min, false, axes) }

// MinKeep gives the smallest and keeps the axes.
func (t *Tensor) MinKeep(axes ...int) *Tensor { return t.reduce(op.Min, true, axes) }

// LogSumExp gives log Σ eˣ without overflow.
func (t *Tensor) LogSumExp(axes ...int) *Tensor { return t.reduce(op.LogSumExp, false, axes) }

// LogSumExpKeep gives log Σ eˣ and keeps the axes.
func (t *Tensor) LogSumExpKeep(axes ...int) *Tensor { return t.reduce(op.LogSumExp, true, axes) }

// Any tells whether one of the bools is true.
func (t *Tensor) Any(axes ...int) *Tensor {
	t.wantBool("any")
	if t.Len() == 0 { // the largest of nothing is undefined, any of nothing is not
		return t.Cast(Int64).Sum(axes...).Ne(0)
	}
	return t.Max(axes...)
}

// All tells whether all of the bools are true.
func (t *Tensor) All(axes ...int) *Tensor {
	t.wantBool("all")
	return t.Not().Any(axes...).Not()
}

func (t *Tensor) wantBool(name string) {
	t.check(name)
	if t.dtype != Bool {
		failf(name, ErrDType, []*Tensor{t}, "elements are %s; want bool", t.dtype)
	}
}

// count is the number of elements that are reduced to one.
func (t *Tensor) count(name string, axes []int) int {
	t.check(name)
	set, err := op.ResolveAxes(axes, len(t.shape))
	if err != nil {
		fail(name, err, t)
	}
	n := 1
	for i, d := range t.shape {
		if set.Has(i) {
			n *= d
		}
	}
	return n
}

func (t *Tensor) mean(keep bool, axes []int) *Tensor {
	n := t.count("mean", axes)
	if !t.dtype.IsFloat() {
		fail("mean", &op.Problem{Kind: ErrDType, Msg: "elements are " + t.dtype.String() + ", whose mean need not be whole", Fix: "convert first: .Cast(locus.Float32)"}, t)
	}
	return t.reduce(op.Sum, keep, axes).Mul(1 / float64(n))
}

// Mean gives the average; NaN of nothing.
func (t *Tensor) Mean(axes ...int) *Tensor { return t.mean(false, axes) }

// MeanKeep gives the average and keeps the axes.
func (t *Tensor) MeanKeep(axes ...int) *Tensor { return t.mean(true, axes) }

func (t *Tensor) variance(keep bool, correction int, axes []int) *Tensor {
	n := t.count("var", axes)
	d := t.Sub(t.MeanKeep(axes...))
	return d.Square().reduce(op.Sum, keep, axes).Mul(1 / math.Max(0, float64(n-correction)))
}

// Var gives the variance, with Bessel's correction (division by n-1).
func (t *Tensor) Var(axes ...int) *Tensor { return t.variance(false, 1, axes) }

// VarBiased gives the mean squared distance from the mean (division by n) and
// keeps the axes, as normalisation needs it.
func (t *Tensor) VarBiased(axes ...int) *Tensor { return t.variance(true, 0, axes) }

// Std gives the standard deviation, with Bessel's correction.
func (t *Tensor) Std(axes ...int) *Tensor { return t.Var(axes...).root(2) }

// Norm gives the Euclidean (Frobenius) norm. Its gradient at zero, where it has
// none, is 0.
func (t *Tensor) Norm(axes ...int) *Tensor {
	return t.reduce(op.Norm, false, axes)
}

// root gives t^(1/p) of numbers that are not negative, without a gradient at 0.
func (t *Tensor) root(p float64) *Tensor {
	pow := func(t *Tensor) *Tensor {
		if p == 2 {
			return t.Sqrt()
		}
		return t.Pow(1 / p)
	}
	if !tracked([]*Tensor{t}) {
		return pow(t)
	}
	zero := t.Eq(0)
	return zero.Where(0, pow(zero.Where(1, t)))
}

// NormP gives the p-norm: (Σ|x|ᵖ)^(1/p); the largest |x| for p = +∞, the
// number of elements that are not zero for p = 0, whose gradient is 0.
func (t *Tensor) NormP(p float64, axes ...int) *Tensor {
	t.wantFloat("NormP")
	switch {
	case math.IsInf(p, 1):
		return t.Abs().Max(axes...)
	case math.IsInf(p, -1):
		return t.Abs().Min(axes...)
	case p == 0:
		return Custom("NormP", func(in ...*Tensor) *Tensor {
			return in[0].Ne(0).Cast(t.dtype).Sum(axes...)
		}, func(in []*Tensor, _, _ *Tensor) []*Tensor {
			return []*Tensor{in[0].ZerosLike()}
		}, t).fresh(t)
	case p == 1:
		return t.Abs().Sum(axes...)
	case p == 2:
		return t.Norm(axes...)
	case !(p > 0):
		failf("NormP", ErrArgument, []*Tensor{t}, "p is %v; want p ≥ 0 or an infinity", p)
	}
	return t.powers(p).Sum(axes...).root(p).Cast(t.dtype)
}

func (t *Tensor) argument(id op.ID, axis int) *Tensor {
	name := op.Get(id).Name
	t.check(name)
	a := t.axis(name, axis)
	return apply(id, op.Axis{Axis: a}, t).dropAxes(op.AxesOf(a), t)
}

// ArgMax gives the position of the first largest element along an axis, as int64.
func (t *Tensor) ArgMax(axis int) *Tensor { return t.argument(op.ArgMax, axis) }

// ArgMin gives the position of the first smallest element along an axis, as int64.
func (t *Tensor) ArgMin(axis int) *Tensor { return t.argument(op.ArgMin, axis) }
