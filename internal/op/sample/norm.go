package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// rowNorms by the shape, the first axis of the statistics and the parameters' axes.
var rowNorms = []struct {
	shape  []int
	from   int
	params [2]int
	layout Layout
}{
	{[]int{1}, 0, [2]int{0, 1}, Contiguous},
	{[]int{5}, 0, [2]int{0, 1}, Contiguous},
	{[]int{2, 3}, 1, [2]int{1, 2}, Contiguous},
	{[]int{4, 3}, 0, [2]int{0, 2}, Reversed},
	{[]int{4, 3}, 1, [2]int{1, 2}, Transposed},
	{[]int{4, 3}, 1, [2]int{0, 1}, Transposed},
	{[]int{4, 3}, 1, [2]int{0, 2}, Contiguous},
	{[]int{4, 3}, 1, [2]int{1, 1}, Stepped}, // one number for all
	{[]int{2, 3, 4}, 1, [2]int{1, 3}, Mixed},
	{[]int{2, 3, 4}, 2, [2]int{2, 3}, Swapped},
	{[]int{2, 3, 4}, 2, [2]int{1, 2}, Contiguous},         // instances
	{[]int{2, 2, 3, 4}, 2, [2]int{1, 3}, Contiguous},      // groups
	{[]int{2, 2, 3, 4}, 2, [2]int{1, 3}, Transposed},      //
	{[]int{2, 2, 3, 1}, 2, [2]int{1, 3}, Contiguous},      // groups without an image
	{[]int{2, 3, 2, 2, 3}, 2, [2]int{1, 3}, Mixed},        //
	{[]int{2, 3, 2, 2, 3}, 3, [2]int{2, 5}, Contiguous},   //
	{[]int{2, 3, 2, 2, 3}, 2, [2]int{2, 4}, Contiguous},   //
	{[]int{3, 0}, 1, [2]int{1, 2}, Contiguous},            // empty rows
	{[]int{0, 3}, 1, [2]int{1, 2}, Contiguous},            // no rows
	{[]int{1027}, 0, [2]int{0, 1}, Contiguous},            //
	{[]int{1025}, 0, [2]int{0, 1}, Offset},                //
	{[]int{3, 1027}, 1, [2]int{1, 2}, Contiguous},         //
	{[]int{37, 24}, 1, [2]int{1, 2}, Contiguous},          // not a multiple of eight rows
	{[]int{65, 33}, 1, [2]int{1, 2}, Transposed},          //
	{[]int{9, 8}, 1, [2]int{1, 2}, BroadcastFirst},        // a gradient of a sum
	{[]int{70, 512}, 1, [2]int{1, 2}, Contiguous},         // aligned
	{[]int{300, 257}, 1, [2]int{1, 2}, Contiguous},        //
	{[]int{300, 257}, 1, [2]int{1, 2}, Transposed},        //
	{[]int{3, 4, 6, 17, 16}, 2, [2]int{1, 3}, Contiguous}, // groups of images
	{[]int{3, 2, 5, 4100}, 2, [2]int{1, 3}, Contiguous},   //
	{[]int{2, 40001}, 1, [2]int{1, 2}, Contiguous},        //
	{[]int{3, 140000}, 1, [2]int{1, 2}, Contiguous},       // long rows
	{[]int{1, 2, 35, 4001}, 2, [2]int{1, 3}, Contiguous},  //
	{[]int{2, 140000}, 1, [2]int{0, 1}, Contiguous},       //
}

// batchNorms by the shape: every channel has at least two elements, but for some.
var batchNorms = []struct {
	shape  []int
	layout Layout
}{
	{[]int{1, 1}, Contiguous},
	{[]int{2, 1}, Contiguous},
	{[]int{5, 3}, Contiguous},
	{[]int{5, 3}, Transposed},
	{[]int{4, 3}, Reversed},
	{[]int{2, 3, 4}, Contiguous},
	{[]int{2, 3, 4}, Mixed},
	{[]int{2, 3, 4}, Transposed},
	{[]int{2, 3, 2, 2, 3}, Mixed},
	{[]int{0, 3}, Contiguous},
	{[]int{3, 0}, Contiguous},
	{[]int{3, 2, 0}, Contiguous},
	{[]int{1027, 3}, Contiguous},
	{[]int{3, 5, 17}, Contiguous},
	{[]int{3, 5, 16}, Offset},
	{[]int{3, 6, 8, 8}, Contiguous},
	{[]int{4, 33, 7, 7}, Contiguous},
	{[]int{4, 33, 7, 7}, Swapped},
	{[]int{65, 130}, Contiguous},
	{[]int{2, 3, 65, 65}, Contiguous},
	{[]int{300, 257}, Contiguous},
	{[]int{9, 2, 130, 130}, Contiguous}, // long channels
	{[]int{9, 2, 130, 130}, Transposed},
}

func (b *builder) normalize() {
	id := op.Normalized
	if b.def.ID == op.BatchNorm || b.def.ID == op.BatchNormGrad {
		id = op.BatchNorm
		for i, n := range batchNorms {
			b.norms(id, i, n.shape, n.layout, op.Normalize{})
		}
		return
	}
	for i, n := range rowNorms {
		a := op.Normalize{From: n.from, Params: n.params}
		b.norms(id, i, n.shape, n.layout, a)
		a.RMS = true
		b.norms(id, i, n.shape, n.layout, a)
	}
}

// norms adds samples of one shape with and without parameters; of large shapes only some.
func (b *builder) norms(id op.ID, i int, shape []int, layout Layout, a op.Normalize) {
	big := op.Elements(shape) >= bigFrom
	if big && b.d != dtype.Float32 && (b.d != dtype.BFloat16 || a.RMS) {
		return
	}
	grad := b.def.ID != id
	// Where all elements are equal the variance is zero and rounding is all that remains.
	a.Eps = 0.01
	if layout == BroadcastFirst && !grad {
		layout = Contiguous
	}
	for k := range 4 {
		if big && k != 3 && k != i%3 {
			continue
		}
		a := a
		a.Weight, a.Bias = k&1 != 0, k&2 != 0
		params := a.ParamShape(id, shape)
		if !grad {
			if k == 3 {
				a.Eps = 1e-5
			}
			in := []Operand{b.in(shape, layout, Ordinary)}
			for range k&1 + k>>1 {
				in = append(in, b.in(params, paramLayout(i), Ordinary))
			}
			b.add(a, shape, in...)
			if id == op.BatchNorm && k == i%4 || id == op.BatchNorm && k == 3 {
				a.Running, a.Momentum = true, 0.1
				for n, s := range a.Stats(id, op.Spec{DType: b.d, Shape: shape}) {
					in = append(in, Operand{Shape: s.Shape, DType: s.DType, Layout: paramLayout(i + n), Domain: Ordinary})
				}
				b.add(a, shape, in...)
			}
			continue
		}
		a.GradWeight, a.GradBias = a.Weight && (k == 3 || i%2 == 0), a.Bias
		x := layout
		if layout == BroadcastFirst {
			x = Contiguous
		}
		in := []Operand{b.in(shape, gradLayout(layout, i), Ordinary), b.in(shape, x, Ordinary)}
		if a.Weight {
			in = append(in, b.in(params, paramLayout(i), Ordinary))
		}
		for _, s := range a.Stats(id, op.Spec{DType: b.d, Shape: shape}) {
			in = append(in, Operand{Shape: s.Shape, DType: s.DType, Domain: Saved})
		}
		b.add(a, shape, in...)
	}
}

func paramLayout(i int) Layout {
	return []Layout{Contiguous, Contiguous, Offset, Reversed, Stepped}[i%5]
}

// gradLayout is x's layout, or a plain one beside it.
func gradLayout(x Layout, i int) Layout {
	if i%2 == 0 && x != BroadcastFirst {
		return Contiguous
	}
	return x
}

func badNorms(id op.ID) []badShape {
	x, p, stat := []int{2, 3, 4}, []int{3}, []int{3}
	a := op.Normalize{Weight: true, Bias: true}
	if id == op.Normalized || id == op.NormalizeGrad {
		p, stat = []int{4}, []int{2, 3}
		a.From, a.Params = 2, [2]int{2, 3}
	}
	with := func(f func(a *op.Normalize)) op.Normalize {
		a := a
		f(&a)
		return a
	}
	same := func(*op.Normalize) {}
	if id == op.NormalizeGrad || id == op.BatchNormGrad {
		stats := func(d dtype.DType, in []op.Spec) []op.Spec {
			in = slices.Clone(in)
			in[len(in)-1].DType = d
			return in
		}
		return []badShape{
			{"shapes differ", op.ErrShape, a, specs(x, []int{2, 3, 1}, p, stat, stat)},
			{"no statistics", op.ErrArgument, a, specs(x, x, p)},
			{"a weight too many", op.ErrArgument, with(func(a *op.Normalize) { a.Weight = false }), specs(x, x, p, stat, stat)},
			{"the gradient of no weight", op.ErrArgument, with(func(a *op.Normalize) { a.Weight, a.GradWeight = false, true }), specs(x, x, stat, stat)},
			{"a weight of the wrong size", op.ErrShape, a, specs(x, x, []int{2}, stat, stat)},
			{"statistics of the wrong size", op.ErrShape, a, specs(x, x, p, []int{4}, stat)},
			{"statistics of another type", op.ErrDType, a, stats(dtype.Float64, specs(x, x, p, stat, stat))},
			{"attributes of another op", op.ErrArgument, nil, specs(x, x, p, stat, stat)},
			{"running statistics", op.ErrArgument, with(func(a *op.Normalize) { a.Running, a.Momentum = true, 0.1 }), specs(x, x, p, stat, stat)},
		}
	}
	bad := []badShape{
		{"no bias", op.ErrArgument, a, specs(x, p)},
		{"a bias too many", op.ErrArgument, with(func(a *op.Normalize) { a.Bias = false }), specs(x, p, p)},
		{"a weight of the wrong size", op.ErrShape, a, specs(x, []int{2}, p)},
		{"a bias of the wrong size", op.ErrShape, a, specs(x, p, []int{1, 3})},
		{"gradients", op.ErrArgument, with(func(a *op.Normalize) { a.GradBias = true }), specs(x, p, p)},
		{"attributes of another op", op.ErrArgument, op.Axis{}, specs(x, p, p)},
	}
	if id == op.BatchNorm {
		running := with(func(a *op.Normalize) { a.Running, a.Momentum = true, 0.1 })
		half := specs(x, p, p, stat, stat)
		half[4].DType = dtype.Float16
		bad = append(bad, badShape{"no running statistics", op.ErrArgument, running, specs(x, p, p)},
			badShape{"one of two running statistics", op.ErrArgument, running, specs(x, p, p, stat)},
			badShape{"running statistics that nothing asks for", op.ErrArgument, a, specs(x, p, p, stat, stat)},
			badShape{"a momentum of nothing", op.ErrArgument, with(func(a *op.Normalize) { a.Momentum = 0.1 }), specs(x, p, p)},
			badShape{"running statistics of the wrong size", op.ErrShape, running, specs(x, p, p, []int{4}, stat)},
			badShape{"running statistics of another type", op.ErrDType, running, half})
		return append(bad, badShape{"a vector", op.ErrShape, with(func(a *op.Normalize) { a.Weight, a.Bias = false, false }), specs([]int{3})},
			badShape{"axes", op.ErrArgument, with(func(a *op.Normalize) { a.From = 1 }), specs(x, p, p)})
	}
	return append(bad, badShape{"no axis left", op.ErrAxis, with(func(a *op.Normalize) { a.From = 3 }), specs(x, p, p)},
		badShape{"parameters beside the statistics", op.ErrAxis, with(func(a *op.Normalize) { a.Params = [2]int{0, 1} }), specs(x, p, p)},
		badShape{"a scalar", op.ErrAxis, with(same), specs([]int{}, p, p)})
}
