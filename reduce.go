package locus

import (
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Reductions take the axes to reduce, all if none is named, and remove them.
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
	if t.node == nil && t.block != from.block && t.IsContiguous() { // no one has seen it: no view is needed
		t.shape, t.strides = to, to
		if len(to) > 0 {
			t.strides = op.Strides(to)
		}
		return t
	}
	return t.reshape(to).fresh(from)
}

// sum adds up; of bools it counts the true ones, as int64.
func (t *Tensor) sum(keep bool, axes []int) *Tensor {
	t.check("Sum")
	if t.dtype == Bool {
		return t.Cast(Int64).reduce(op.Sum, keep, axes).fresh(t)
	}
	return t.reduce(op.Sum, keep, axes)
}

// Sum returns the sum over the given axes, all if none is named, and removes them. It has
// the element type of t, unlike PyTorch's, which is
// int64 for integers; of bools it is the number of true ones, as int64.
func (t *Tensor) Sum(axes ...int) *Tensor { return t.sum(false, axes) }

// SumKeep is [Tensor.Sum] that keeps the axes.
func (t *Tensor) SumKeep(axes ...int) *Tensor { return t.sum(true, axes) }

// Prod returns the product over the given axes, all if none is named.
func (t *Tensor) Prod(axes ...int) *Tensor { return t.reduce(op.Prod, false, axes) }

// ProdKeep is [Tensor.Prod] that keeps the axes.
func (t *Tensor) ProdKeep(axes ...int) *Tensor { return t.reduce(op.Prod, true, axes) }

// Max returns the largest element over the given axes, all if none is named; NaN if one is
// NaN. Where several are largest, they
// share the gradient, as with PyTorch's amax; [Tensor.MaxWithPositions] passes
// it to the first.
func (t *Tensor) Max(axes ...int) *Tensor { return t.reduce(op.Max, false, axes) }

// MaxKeep is [Tensor.Max] that keeps the axes.
func (t *Tensor) MaxKeep(axes ...int) *Tensor { return t.reduce(op.Max, true, axes) }

// Min returns the smallest element over the given axes, all if none is named; NaN if one is
// NaN. See [Tensor.Max] about gradients.
func (t *Tensor) Min(axes ...int) *Tensor { return t.reduce(op.Min, false, axes) }

// MinKeep is [Tensor.Min] that keeps the axes.
func (t *Tensor) MinKeep(axes ...int) *Tensor { return t.reduce(op.Min, true, axes) }

// LogSumExp returns log Σ eˣ over the given axes, all if none is named, without overflow.
func (t *Tensor) LogSumExp(axes ...int) *Tensor { return t.reduce(op.LogSumExp, false, axes) }

// LogSumExpKeep is [Tensor.LogSumExp] that keeps the axes.
func (t *Tensor) LogSumExpKeep(axes ...int) *Tensor { return t.reduce(op.LogSumExp, true, axes) }

func (t *Tensor) any(keep bool, axes []int) *Tensor {
	if t.Len() == 0 { // the largest of nothing is undefined, any of nothing is not
		return t.sum(keep, axes).Ne(0)
	}
	return t.reduce(op.Max, keep, axes)
}

// Any returns whether any of the bools is true, over the given axes, all if none is named.
func (t *Tensor) Any(axes ...int) *Tensor {
	t.wantBool("Any")
	return t.any(false, axes)
}

// AnyKeep is [Tensor.Any] that keeps the axes.
func (t *Tensor) AnyKeep(axes ...int) *Tensor {
	t.wantBool("AnyKeep")
	return t.any(true, axes)
}

// All returns whether all of the bools are true, over the given axes, all if none is named.
func (t *Tensor) All(axes ...int) *Tensor {
	t.wantBool("All")
	return t.Not().any(false, axes).Not()
}

// AllKeep is [Tensor.All] that keeps the axes.
func (t *Tensor) AllKeep(axes ...int) *Tensor {
	t.wantBool("AllKeep")
	return t.Not().any(true, axes).Not()
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
	n := t.count("Mean", axes)
	if !t.dtype.IsFloat() {
		fail("Mean", &op.Problem{Kind: ErrDType, Msg: "elements are " + t.dtype.String() + ", whose mean need not be an integer", Fix: "convert first: .Cast(locus.Float32)"}, t)
	}
	return t.reduce(op.Sum, keep, axes).Mul(1 / float64(n))
}

// Mean returns the average over the given axes, all if none is named; NaN if there are no
// elements.
func (t *Tensor) Mean(axes ...int) *Tensor { return t.mean(false, axes) }

// MeanKeep is [Tensor.Mean] that keeps the axes.
func (t *Tensor) MeanKeep(axes ...int) *Tensor { return t.mean(true, axes) }

func (t *Tensor) variance(keep bool, correction int, axes []int) *Tensor {
	n := t.count("Var", axes)
	d := t.Sub(t.MeanKeep(axes...))
	return d.Square().reduce(op.Sum, keep, axes).Mul(1 / math.Max(0, float64(n-correction)))
}

// VarOptions are the options of [Tensor.VarWith] and [Tensor.StdWith]. The zero
// value divides by n and removes the axes.
type VarOptions struct {
	Correction int  // the divisor is n - Correction; 1 is Bessel's
	Keep       bool // keep the axes, with size 1
}

// Var returns the variance over the given axes, all if none is named, with Bessel's
// correction (division by n-1).
func (t *Tensor) Var(axes ...int) *Tensor { return t.variance(false, 1, axes) }

// VarKeep is [Tensor.Var] that keeps the axes.
func (t *Tensor) VarKeep(axes ...int) *Tensor { return t.variance(true, 1, axes) }

// VarWith returns the variance with a correction of choice: 0 for that of a whole
// population, 1 for the estimate from a sample, which [Tensor.Var] is.
func (t *Tensor) VarWith(o VarOptions, axes ...int) *Tensor {
	return t.variance(o.Keep, o.Correction, axes)
}

// VarBiased returns the mean squared distance from the mean (division by n) and
// keeps the axes, as normalization needs it.
func (t *Tensor) VarBiased(axes ...int) *Tensor { return t.variance(true, 0, axes) }

// Std returns the standard deviation over the given axes, all if none is named, with Bessel's
// correction (division by n-1).
func (t *Tensor) Std(axes ...int) *Tensor { return t.variance(false, 1, axes).root(2) }

// StdKeep is [Tensor.Std] that keeps the axes.
func (t *Tensor) StdKeep(axes ...int) *Tensor { return t.variance(true, 1, axes).root(2) }

// StdWith returns the standard deviation with a correction of choice: see
// [Tensor.VarWith].
func (t *Tensor) StdWith(o VarOptions, axes ...int) *Tensor {
	return t.variance(o.Keep, o.Correction, axes).root(2)
}

// Norm returns the Euclidean (Frobenius) norm over the given axes, all if none is named. Its gradient at zero, where it has
// none, is 0.
func (t *Tensor) Norm(axes ...int) *Tensor { return t.reduce(op.Norm, false, axes) }

// NormKeep is [Tensor.Norm] that keeps the axes.
func (t *Tensor) NormKeep(axes ...int) *Tensor { return t.reduce(op.Norm, true, axes) }

// root returns t^(1/p) of numbers that are not negative, without a gradient at 0.
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

// NormP returns the p-norm: (Σ|x|ᵖ)^(1/p); the largest |x| for p = +∞, the
// number of elements that are not zero for p = 0, whose gradient is 0.
func (t *Tensor) NormP(p float64, axes ...int) *Tensor { return t.normP("NormP", p, false, axes) }

// NormPKeep is [Tensor.NormP] that keeps the axes.
func (t *Tensor) NormPKeep(p float64, axes ...int) *Tensor {
	return t.normP("NormPKeep", p, true, axes)
}

func (t *Tensor) normP(name string, p float64, keep bool, axes []int) *Tensor {
	t.wantFloat(name)
	switch {
	case math.IsInf(p, 1):
		return t.Abs().reduce(op.Max, keep, axes)
	case math.IsInf(p, -1):
		return t.Abs().reduce(op.Min, keep, axes)
	case p == 0:
		return Custom(name, func(in ...*Tensor) *Tensor {
			return in[0].Ne(0).Cast(t.dtype).reduce(op.Sum, keep, axes)
		}, func(in []*Tensor, _, _ *Tensor) []*Tensor {
			return []*Tensor{in[0].ZerosLike()}
		}, t).fresh(t)
	case p == 1:
		return t.Abs().reduce(op.Sum, keep, axes)
	case p == 2:
		return t.reduce(op.Norm, keep, axes)
	case !(p > 0):
		failf(name, ErrArgument, []*Tensor{t}, "p is %v; want p ≥ 0 or an infinity", p)
	}
	return t.powers(p).reduce(op.Sum, keep, axes).root(p).Cast(t.dtype)
}

// argument returns the positions of extremes along one axis, or along all as one.
func (t *Tensor) argument(name string, id op.ID, keep bool, axis []int) *Tensor {
	t.check(name)
	switch len(axis) {
	case 0:
		r := apply(id, op.Axis{Axis: 0}, t.reshape([]int{t.Len()}))
		to := []int{}
		if keep {
			to = ones(len(t.shape))
		}
		return r.reshape(to).owned()
	case 1:
	default:
		fail(name, &op.Problem{Kind: ErrArgument, Msg: fmt.Sprintf("takes one axis, or none for the whole tensor; got %d", len(axis)),
			Fix: "make one axis of several first, with .Reshape or .FlattenFrom"}, t)
	}
	a := t.axis(name, axis[0])
	r := apply(id, op.Axis{Axis: a}, t)
	if keep {
		return r
	}
	return r.dropAxes(op.AxesOf(a), t)
}

// ones returns a shape of n ones.
func ones(n int) []int { return slices.Repeat([]int{1}, n) }

// ArgMax returns the position of the first largest element along an axis, as
// int64; without an axis the position in the whole tensor, in order.
func (t *Tensor) ArgMax(axis ...int) *Tensor { return t.argument("ArgMax", op.ArgMax, false, axis) }

// ArgMaxKeep is [Tensor.ArgMax] that keeps the axis.
func (t *Tensor) ArgMaxKeep(axis ...int) *Tensor {
	return t.argument("ArgMaxKeep", op.ArgMax, true, axis)
}

// ArgMin returns the position of the first smallest element along an axis, as
// int64; without an axis the position in the whole tensor, in order.
func (t *Tensor) ArgMin(axis ...int) *Tensor { return t.argument("ArgMin", op.ArgMin, false, axis) }

// ArgMinKeep is [Tensor.ArgMin] that keeps the axis.
func (t *Tensor) ArgMinKeep(axis ...int) *Tensor {
	return t.argument("ArgMinKeep", op.ArgMin, true, axis)
}

// MaxWithPositions returns the largest elements along an axis and the positions
// of the first of them, as int64. The gradient flows to that position alone,
// whereas that of [Tensor.Max] is shared by all that are largest.
func (t *Tensor) MaxWithPositions(axis int) (values, positions *Tensor) {
	return t.extreme("MaxWithPositions", op.ArgMax, false, axis)
}

// MaxWithPositionsKeep is [Tensor.MaxWithPositions] that keeps the axis.
func (t *Tensor) MaxWithPositionsKeep(axis int) (values, positions *Tensor) {
	return t.extreme("MaxWithPositionsKeep", op.ArgMax, true, axis)
}

// MinWithPositions returns the smallest elements along an axis and the positions
// of the first of them, as int64. See [Tensor.MaxWithPositions].
func (t *Tensor) MinWithPositions(axis int) (values, positions *Tensor) {
	return t.extreme("MinWithPositions", op.ArgMin, false, axis)
}

// MinWithPositionsKeep is [Tensor.MinWithPositions] that keeps the axis.
func (t *Tensor) MinWithPositionsKeep(axis int) (values, positions *Tensor) {
	return t.extreme("MinWithPositionsKeep", op.ArgMin, true, axis)
}

// extreme reads the elements where they were found: one pass over t.
func (t *Tensor) extreme(name string, id op.ID, keep bool, axis int) (values, positions *Tensor) {
	positions = t.detach().argument(name, id, true, []int{axis})
	a := t.axis(name, axis)
	values = apply(op.Gather, op.Axis{Axis: a}, t, positions)
	if keep {
		return values, positions
	}
	values = values.dropAxes(op.AxesOf(a), t)
	return values, positions.reshape(values.shape).owned() // the gradient needs them as they are
}
