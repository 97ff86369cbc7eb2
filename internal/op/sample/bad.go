package sample

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// Bad is a call that the op's rule must refuse.
type Bad struct {
	Op    op.ID
	Why   string
	Attrs op.Attrs
	In    []op.Spec
	Kind  error // op.ErrShape and so on
}

// String names the call.
func (b Bad) String() string { return fmt.Sprintf("%s: %s", b.Op, b.Why) }

// BadOf returns calls of an op that its rule must refuse: made from its good samples
// by removing or adding an operand and by changing one operand's type, and from lists
// where shapes or attributes can be wrong.
func BadOf(id op.ID) []Bad {
	def := op.Get(id)
	var bad []Bad
	add := func(why string, kind error, a op.Attrs, in ...op.Spec) {
		bad = append(bad, Bad{Op: id, Why: why, Attrs: a, In: in, Kind: kind})
	}
	types := DTypes(id)
	d := types[len(types)-1]
	samples := Of(id, d)
	if len(samples) == 0 { // a test says so
		return nil
	}
	good := samples[0]
	in := good.Specs()
	if def.Arity >= 0 {
		add("one operand too many", op.ErrArgument, good.Attrs, append(slices.Clone(in), op.Spec{DType: d})...)
	}
	if len(in) > 0 {
		add("no operands", op.ErrArgument, good.Attrs)
	}
	for i := range in {
		for _, t := range dtype.All {
			if t == in[i].DType {
				continue
			}
			changed := slices.Clone(in)
			changed[i].DType = t
			switch {
			case !def.Accepts(i).Has(t):
				add(fmt.Sprintf("operand %d of type %s", i, t), op.ErrDType, good.Attrs, changed...)
			case len(in) > 1 && agree(id, i):
				add(fmt.Sprintf("operand %d of type %s beside %s", i, t, d), op.ErrDType, good.Attrs, changed...)
			}
		}
	}
	for _, l := range badShapes(id) {
		add(l.why, l.kind, l.attrs, l.in...)
	}
	return bad
}

// agree reports whether operand i must have the type of another one.
func agree(id op.ID, i int) bool {
	switch id {
	case op.Where:
		return i > 0
	case op.Gather, op.Take, op.CrossEntropy, op.CrossEntropyGrad, op.CTC, op.CTCGrad:
		return false
	case op.ScatterAdd, op.Scatter, op.IndexAdd:
		return i != 1
	}
	return true
}

type badShape struct {
	why   string
	kind  error
	attrs op.Attrs
	in    []op.Spec
}

func specs(shapes ...[]int) []op.Spec {
	l := make([]op.Spec, len(shapes))
	for i, s := range shapes {
		l[i] = op.Spec{DType: dtype.Float32, Shape: s}
	}
	return l
}

func badShapes(id op.ID) []badShape {
	withIndex := func(in []op.Spec) []op.Spec {
		in[1].DType = dtype.Int64
		return in
	}
	wrongConv := func(f func(*op.Conv)) op.Conv {
		c := conv(1, 0, 1, 1)
		c.Size = [2]int{4, 4}
		f(&c)
		return c
	}
	wrongPool := func(f func(*op.Pool)) op.Pool {
		p := pool(2, 2, 0, 1, false)
		p.Size = [2]int{4, 4}
		f(&p)
		return p
	}
	x, w := []int{1, 2, 4, 4}, []int{3, 2, 3, 3}
	switch op.Get(id).Family {
	case op.LinalgFamily:
		return badMatrices(id)
	case op.FourierFamily:
		return badSignals(id)
	}
	switch id {
	case op.Full, op.Arange:
		return []badShape{
			{"a negative size", op.ErrShape, op.Create{DType: dtype.Float32, Shape: op.DimsOf([]int{2, -1})}, nil},
			{"more elements than there are addresses", op.ErrShape, op.Create{DType: dtype.Float32, Shape: op.DimsOf([]int{1 << 31, 1 << 31})}, nil},
			{"no element type", op.ErrDType, op.Create{}, nil},
			{"attributes of another op", op.ErrArgument, op.Axis{}, nil},
		}
	case op.RandUniform, op.RandNormal, op.RandInt, op.RandBits:
		wrong := dtype.Bool
		return []badShape{
			{"a negative size", op.ErrShape, op.Random{DType: DTypes(id)[0], Shape: op.DimsOf([]int{-3})}, nil},
			{"bools", op.ErrDType, op.Random{DType: wrong}, nil},
			{"attributes of another op", op.ErrArgument, nil, nil},
		}
	case op.CastTo:
		return []badShape{
			{"to no type", op.ErrDType, op.Cast{}, specs([]int{2})},
			{"no attributes", op.ErrDType, nil, specs([]int{2})},
		}
	case op.Expand:
		to := op.Shape{Shape: op.DimsOf([]int{2, 3})}
		return []badShape{
			{"a size that is not 1", op.ErrShape, to, specs([]int{2})},
			{"more axes than there are", op.ErrShape, to, specs([]int{1, 2, 3})},
		}
	case op.Max, op.Min:
		return []badShape{{"the largest of nothing", op.ErrShape, op.Reduce{Axes: op.AxesOf(0)}, specs([]int{0, 3})}}
	case op.ArgMax, op.ArgMin:
		return []badShape{{"the largest of nothing", op.ErrShape, op.Axis{Axis: 1}, specs([]int{3, 0})}}
	case op.MatMul:
		return []badShape{
			{"inner sizes differ", op.ErrShape, nil, specs([]int{2, 3}, []int{4, 2})},
			{"a vector", op.ErrShape, nil, specs([]int{3}, []int{3, 2})},
			{"batches differ", op.ErrShape, nil, specs([]int{2, 2, 3}, []int{3, 3, 2})},
			{"a batch on one side", op.ErrShape, nil, specs([]int{2, 2, 3}, []int{3, 2})},
		}
	case op.Gather:
		return []badShape{
			{"ranks differ", op.ErrShape, op.Axis{}, withIndex(specs([]int{2, 3}, []int{2}))},
			{"a larger index on another axis", op.ErrShape, op.Axis{}, withIndex(specs([]int{2, 3}, []int{2, 4}))},
		}
	case op.ScatterAdd, op.Scatter:
		return []badShape{
			{"index and src differ", op.ErrShape, op.Axis{}, withIndex(specs([]int{2, 3}, []int{2, 3}, []int{2, 2}))},
			{"a larger index on another axis", op.ErrShape, op.Axis{}, withIndex(specs([]int{2, 3}, []int{2, 4}, []int{2, 4}))},
		}
	case op.Take:
		return []badShape{{"too many axes in the result", op.ErrShape, op.Axis{},
			withIndex(specs([]int{2, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1}))}}
	case op.IndexAdd:
		return []badShape{{"src of the wrong size", op.ErrShape, op.Axis{}, withIndex(specs([]int{4, 3}, []int{2}, []int{3, 3}))}}
	case op.Concat:
		return []badShape{
			{"ranks differ", op.ErrShape, op.Axis{}, specs([]int{2, 3}, []int{2})},
			{"another axis differs", op.ErrShape, op.Axis{}, specs([]int{2, 3}, []int{2, 4})},
		}
	case op.Padded:
		return []badShape{{"negative padding", op.ErrArgument,
			op.Pad{Low: op.DimsOf([]int{-1}), High: op.DimsOf([]int{0}), Interior: op.DimsOf([]int{0})}, specs([]int{3})}}
	case op.Conv2D:
		return []badShape{
			{"three dimensions", op.ErrShape, conv(1, 0, 1, 1), specs(x[1:], w)},
			{"channels differ", op.ErrShape, conv(1, 0, 1, 1), specs(x, []int{3, 4, 3, 3})},
			{"groups that do not divide", op.ErrShape, conv(1, 0, 1, 2), specs(x, []int{3, 1, 3, 3})},
			{"a kernel that does not fit", op.ErrShape, conv(1, 0, 1, 1), specs(x, []int{3, 2, 5, 3})},
			{"a dilated kernel that does not fit", op.ErrShape, conv(1, 0, 2, 1), specs(x, w)},
			{"an empty kernel", op.ErrShape, conv(1, 0, 1, 1), specs(x, []int{3, 2, 0, 3})},
			{"no stride", op.ErrArgument, conv(0, 0, 1, 1), specs(x, w)},
			{"negative padding", op.ErrArgument, conv(1, -1, 1, 1), specs(x, w)},
			{"no groups", op.ErrArgument, conv(1, 0, 1, 0), specs(x, w)},
		}
	case op.ConvAct:
		a := op.ConvEpilogue{Conv: conv(1, 0, 1, 1)}
		return []badShape{
			{"one operand", op.ErrArgument, a, specs(x)},
			{"four operands", op.ErrArgument, a, specs(x, w, []int{3}, []int{3})},
			{"channels differ", op.ErrShape, a, specs(x, []int{3, 4, 3, 3})},
			{"a bias of the wrong size", op.ErrShape, a, specs(x, w, []int{2})},
			{"a bias with two axes", op.ErrShape, a, specs(x, w, []int{1, 3})},
			{"no stride", op.ErrArgument, op.ConvEpilogue{Conv: conv(0, 0, 1, 1)}, specs(x, w)},
			{"an activation that there is not", op.ErrArgument, op.ConvEpilogue{Conv: conv(1, 0, 1, 1), Act: op.Exp}, specs(x, w)},
			{"attributes of another op", op.ErrArgument, conv(1, 0, 1, 1), specs(x, w)},
		}
	case op.ConvGradInput:
		return []badShape{
			{"channels differ", op.ErrShape, wrongConv(func(*op.Conv) {}), specs([]int{1, 2, 2, 2}, w)},
			{"a gradient of the wrong size", op.ErrShape, wrongConv(func(*op.Conv) {}), specs([]int{1, 3, 3, 2}, w)},
			{"no dilation", op.ErrArgument, wrongConv(func(c *op.Conv) { c.Dilation[1] = 0 }), specs([]int{1, 3, 2, 2}, w)},
		}
	case op.ConvGradWeight:
		return []badShape{
			{"batches differ", op.ErrShape, wrongConv(func(c *op.Conv) { c.Size = [2]int{3, 3} }), specs([]int{2, 3, 2, 2}, x)},
			{"a gradient of the wrong size", op.ErrShape, wrongConv(func(c *op.Conv) { c.Size = [2]int{3, 3} }), specs([]int{1, 3, 2, 3}, x)},
			{"groups that do not divide", op.ErrShape, wrongConv(func(c *op.Conv) { c.Size, c.Groups = [2]int{3, 3}, 2 }), specs([]int{1, 3, 2, 2}, x)},
		}
	case op.MaxPool, op.MaxPoolIndices, op.AvgPool:
		return []badShape{
			{"three dimensions", op.ErrShape, wrongPool(func(*op.Pool) {}), specs(x[1:])},
			{"a window that does not fit", op.ErrShape, pool(5, 1, 0, 1, false), specs(x)},
			{"more padding than half the window", op.ErrArgument, pool(2, 1, 2, 1, false), specs(x)},
			{"no stride", op.ErrArgument, pool(2, 0, 0, 1, false), specs(x)},
		}
	case op.MaxPoolGrad:
		return []badShape{{"a gradient of the wrong size", op.ErrShape, wrongPool(func(*op.Pool) {}), specs([]int{1, 2, 3, 2}, x)}}
	case op.AvgPoolGrad:
		return []badShape{
			{"a gradient of the wrong size", op.ErrShape, wrongPool(func(*op.Pool) {}), specs([]int{1, 2, 3, 2})},
			{"three dimensions", op.ErrShape, wrongPool(func(*op.Pool) {}), specs([]int{2, 2, 2})},
		}
	case op.SoftmaxGrad, op.LogSoftmaxGrad:
		return []badShape{{"shapes differ", op.ErrShape, op.Axis{}, specs([]int{2, 3}, []int{3, 2})}}
	case op.Normalized, op.NormalizeGrad, op.BatchNorm, op.BatchNormGrad:
		return badNorms(id)
	case op.CrossEntropy, op.CrossEntropyGrad:
		return badClasses(id)
	case op.GridSample, op.GridSampleGradInput, op.GridSampleGradGrid:
		return badGrids(id)
	case op.CTC, op.CTCGrad:
		return badCTC(id)
	case op.Recurrent, op.RecurrentGrad:
		return badRecurrences(id)
	case op.Linear:
		a, x, w := op.Epilogue{}, []int{2, 3}, []int{4, 3}
		return []badShape{
			{"one operand", op.ErrArgument, a, specs(x)},
			{"four operands", op.ErrArgument, a, specs(x, w, []int{4}, []int{4})},
			{"a scalar", op.ErrShape, a, specs([]int{}, w)},
			{"a weight that is no matrix", op.ErrShape, a, specs(x, []int{3})},
			{"features that do not fit", op.ErrShape, a, specs(x, []int{3, 4})},
			{"a bias of the wrong size", op.ErrShape, a, specs(x, w, []int{3})},
			{"a bias with two axes", op.ErrShape, a, specs(x, w, []int{1, 4})},
			{"an activation that there is not", op.ErrArgument, op.Epilogue{Act: op.Exp}, specs(x, w)},
			{"attributes of another op", op.ErrArgument, nil, specs(x, w)},
		}
	case op.UpdateAll:
		p, q := []int{2, 3}, []int{3, 2}
		adam := op.Update{Rule: op.AdamRule}
		return []badShape{
			{"no attributes", op.ErrArgument, nil, specs(p, p)},
			{"a rule that there is not", op.ErrArgument, op.Update{Rule: 77}, specs(p, p)},
			{"nesterov without momentum", op.ErrArgument, op.Update{Nesterov: true}, specs(p, p)},
			{"a gradient too few", op.ErrArgument, op.Update{}, specs(p, p, p)},
			{"nothing is remembered", op.ErrArgument, adam, specs(p, p)},
			{"a gradient of another shape", op.ErrShape, op.Update{}, specs(p, p, p, q)},
			{"an average of another shape", op.ErrShape, adam, specs(p, p, p, q)},
			{"no factor", op.ErrArgument, op.Update{Scaled: true}, specs(p, p)},
			{"two factors", op.ErrShape, op.Update{Scaled: true}, specs(p, p, []int{2})},
			{"a choice that is no bool", op.ErrDType, op.Update{Gated: true}, specs(p, p, []int{})},
			{"two choices", op.ErrShape, op.Update{Gated: true}, append(specs(p, p), op.Spec{DType: dtype.Bool, Shape: []int{2}})},
		}
	case op.ScaleAll:
		return []badShape{
			{"no factor", op.ErrArgument, nil, specs([]int{2})},
			{"two factors", op.ErrShape, nil, specs([]int{2}, []int{2})},
		}
	case op.CastAll:
		return []badShape{
			{"to no type", op.ErrDType, op.Cast{}, specs([]int{2})},
			{"to integers", op.ErrDType, op.Cast{To: dtype.Int32}, specs([]int{2})},
		}
	case op.Attend:
		a := op.Attention{Scale: 1}
		q := []int{2, 3, 4}
		return []badShape{
			{"two operands", op.ErrArgument, a, specs(q, q)},
			{"vectors", op.ErrShape, a, specs([]int{3}, []int{3}, []int{3})},
			{"keys and values differ in number", op.ErrShape, a, specs(q, q, []int{2, 5, 4})},
			{"queries and keys differ in size", op.ErrShape, a, specs(q, []int{2, 3, 5}, q)},
			{"batches differ", op.ErrShape, a, specs(q, []int{1, 3, 4}, q)},
			{"a mask of the wrong size", op.ErrShape, a, specs(q, q, q, []int{2, 3, 4})},
			{"a mask of another type", op.ErrDType, a, append(specs(q, q, q), op.Spec{DType: dtype.Float64, Shape: []int{2, 3, 3}})},
			{"rows of no heads", op.ErrShape, op.Attention{Scale: 1, Rows: true}, specs(q[1:], q[1:], q[1:])},
		}
	case op.AttendGrad:
		a := op.Attention{Scale: 1}
		q := []int{2, 3, 4}
		return []badShape{
			{"five operands", op.ErrArgument, a, specs(q, q, q, q, q)},
			{"queries and keys differ in size", op.ErrShape, a, specs(q, q, []int{2, 3, 5}, q, q, q[:2])},
			{"a gradient of the wrong size", op.ErrShape, a, specs([]int{2, 3, 5}, q, q, q, q, q[:2])},
			{"a result of the wrong size", op.ErrShape, a, specs(q, q, q, q, []int{2, 2, 4}, q[:2])},
			{"statistics of the wrong size", op.ErrShape, a, specs(q, q, q, q, q, q)},
			{"a mask of the wrong size", op.ErrShape, a, specs(q, q, q, q, q, q[:2], q)},
			{"rows of different sizes", op.ErrShape, op.Attention{Scale: 1, Rows: true}, specs(q, q, []int{2, 5, 4}, []int{2, 5, 4}, q, q[:2])},
		}
	}
	return nil
}
