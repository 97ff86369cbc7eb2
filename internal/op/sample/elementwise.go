package sample

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// geometry is a shape and the layouts of up to three operands of that shape.
type geometry struct {
	shape   []int
	layouts [3]Layout
}

// geometries are what elementwise kernels must cope with: no axes, no
// elements, one, sizes around and beyond vector registers, and every layout
// beside every other kind.
var geometries = []geometry{
	{[]int{}, [3]Layout{}},
	{[]int{}, [3]Layout{Offset, Contiguous, Offset}},
	{[]int{1}, [3]Layout{}},
	{[]int{0}, [3]Layout{Contiguous, Offset, Contiguous}},
	{[]int{7}, [3]Layout{Contiguous, Constant, Offset}},
	{[]int{9}, [3]Layout{Constant, Contiguous, Constant}},
	{[]int{3}, [3]Layout{Constant, Constant, Constant}},
	{[]int{2, 3}, [3]Layout{}},
	{[]int{2, 3}, [3]Layout{Reversed, Contiguous, Stepped}},
	{[]int{3, 4}, [3]Layout{BroadcastFirst, Contiguous, BroadcastAll}},
	{[]int{4, 3}, [3]Layout{Contiguous, BroadcastLast, BroadcastFirst}},
	{[]int{3, 5}, [3]Layout{BroadcastLast, BroadcastFirst, Constant}},
	{[]int{4, 2}, [3]Layout{BroadcastAll, Transposed, Reversed}},
	{[]int{5, 9}, [3]Layout{Transposed, Contiguous, Transposed}},
	{[]int{9, 5}, [3]Layout{Transposed, Transposed, Contiguous}},
	{[]int{6, 7}, [3]Layout{Stepped, Offset, Reversed}},
	{[]int{2, 3, 4}, [3]Layout{Swapped, Mixed, BroadcastAll}},
	{[]int{2, 0, 3}, [3]Layout{Transposed, Contiguous, BroadcastFirst}},
	{[]int{3, 1, 2}, [3]Layout{Mixed, Reversed, Swapped}},
	{[]int{2, 3, 2, 2, 3}, [3]Layout{Mixed, Transposed, Stepped}},
	{[]int{63}, [3]Layout{Offset, Contiguous, Contiguous}},
	{[]int{1027}, [3]Layout{}},
	{[]int{1025}, [3]Layout{Offset, Constant, Contiguous}},
	{[]int{1026}, [3]Layout{Stepped, Offset, BroadcastAll}},
	{[]int{33, 31}, [3]Layout{Contiguous, BroadcastFirst, Mixed}},
	{[]int{31, 33}, [3]Layout{Swapped, BroadcastLast, Contiguous}},
	{[]int{1, 1, 2, 1, 3, 1, 1, 2}, [3]Layout{Transposed, Mixed, Contiguous}},
}

// bigGeometries are split between threads.
var bigGeometries = []geometry{
	{[]int{65539}, [3]Layout{}},
	{[]int{257, 301}, [3]Layout{Transposed, BroadcastFirst, Contiguous}},
}

// domains lists, where they are not Ordinary, the domains of the operands on which
// the op is smooth.
var domains = map[op.ID][]Domain{
	op.Abs: {NonZero}, op.Sign: {NonZero}, op.Relu: {NonZero},
	op.Sqrt: {Positive}, op.Rsqrt: {Positive}, op.Reciprocal: {NonZero},
	op.Log: {Positive}, op.Log2: {Positive}, op.Log10: {Positive}, op.Log1p: {Positive},
	op.Tan: {Unit}, op.Asin: {Unit}, op.Acos: {Unit}, op.Atanh: {Unit}, op.Acosh: {AboveOne},
	op.Floor: {OffGrid}, op.Ceil: {OffGrid}, op.Round: {OffGrid}, op.Trunc: {OffGrid},
	op.Div: {Ordinary, NonZero}, op.FloorDiv: {Ordinary, NonZero}, op.Mod: {Ordinary, NonZero}, op.Fmod: {Ordinary, NonZero},
	op.Pow: {Positive, Ordinary}, op.Atan2: {NonZero, NonZero},
	op.ReluGrad: {Ordinary, NonZero}, op.SigmoidGrad: {Ordinary, Fraction}, op.TanhGrad: {Ordinary, Unit},
	op.HardSigmoid: {Unit}, op.HardSigmoidGrad: {Ordinary, Unit}, op.HardSwish: {Unit}, op.HardSwishGrad: {Ordinary, Unit},
	op.Relu6: {NonZero}, op.Relu6Grad: {Ordinary, NonZero}, op.LeakyRelu: {NonZero, Ordinary}, op.LeakySlope: {NonZero, Ordinary},
	op.Equal: {Few, Few}, op.NotEqual: {Few, Few}, op.Less: {Few, Few}, op.LessEqual: {Few, Few},
	op.Greater: {Few, Few}, op.GreaterEqual: {Few, Few},
}

// hard lists, for each op, domains on which it is not smooth or hard to get
// right, tried in addition. Ops that are not listed get the edge cases.
func hard(def *op.Def, d dtype.DType) [][]Domain {
	edge := [][]Domain{{Special, SpecialRow}}
	if !d.IsFloat() {
		return append(edge, []Domain{Wide, Wide})
	}
	switch def.ID {
	case op.Gelu, op.GeluTanh, op.Silu, op.Mish: // at -Inf they are a limit, which formulas miss
		return [][]Domain{{Extremes}, {Wide}}
	case op.ReluGrad, op.Relu6Grad, op.HardSigmoidGrad, op.HardSwishGrad:
		return [][]Domain{{Ordinary, Special}, {Special, Few}, {Ordinary, Wide}}
	case op.LeakyRelu, op.LeakySlope:
		return [][]Domain{{Special, Ordinary}, {Few, Few}, {Wide, Ordinary}}
	case op.SigmoidGrad, op.TanhGrad:
		return [][]Domain{{Wide, Fraction}, {Few, Few}}
	case op.GeluGrad, op.GeluTanhGrad, op.SiluGrad, op.MishGrad:
		return [][]Domain{{Ordinary, Wide}, {Wide, Ordinary}}
	case op.FloorDiv, op.Mod, op.Fmod: // quotients that are exact or nearly so
		return append(edge, []Domain{Few, Few}, []Domain{Halves, Halves}, []Domain{Tenths, Tenths}, []Domain{Wide, Wide})
	case op.Pow:
		return append(edge, []Domain{Ordinary, Few}, []Domain{Few, Few}, []Domain{Wide, Unit})
	case op.Floor, op.Ceil, op.Round, op.Trunc:
		return append(edge, []Domain{Halves}, []Domain{Wide})
	}
	return append(edge, []Domain{Wide, Wide}, []Domain{Few, Few})
}

func (b *builder) elementwise() {
	if b.def.ID == op.CastTo {
		for _, to := range dtype.All {
			b.elementwiseTo(op.Cast{To: to}, to)
		}
		return
	}
	out := b.d
	switch b.def.ID {
	case op.IsNaN, op.IsInf, op.IsFinite:
		out = dtype.Bool
	}
	if b.def.Family == op.CompareFamily {
		out = dtype.Bool
	}
	b.elementwiseTo(nil, out)
}

func (b *builder) elementwiseTo(a op.Attrs, out dtype.DType) {
	domain := func(l []Domain, i int) Domain {
		if i < len(l) {
			return l[i]
		}
		return Ordinary
	}
	operands := func(shape []int, layouts [3]Layout, l []Domain) []Operand {
		in := make([]Operand, b.def.Arity)
		for i := range in {
			in[i] = b.in(shape, layouts[i], domain(l, i))
		}
		if b.def.ID == op.Where {
			in[0].DType = dtype.Bool
		}
		return in
	}
	geoms := geometries
	if b.d == dtype.Float32 || b.def.ID == op.Copy || b.def.ID == op.Add {
		geoms = append(geoms[:len(geoms):len(geoms)], bigGeometries...)
	}
	for _, g := range geoms {
		if b.def.Arity == 1 && g.layouts[0] == Constant {
			continue // only operands that broadcast can be constants
		}
		b.addTyped(a, out, g.shape, operands(g.shape, g.layouts, domains[b.def.ID])...)
	}
	for _, l := range hard(b.def, b.d) {
		shape := []int{NumSpecials(b.d)}
		if b.def.Arity > 1 {
			shape = append(shape, shape[0])
		}
		b.addTyped(a, out, shape, operands(shape, [3]Layout{}, l)...)
		if b.def.Arity == 1 {
			b.addTyped(a, out, shape, operands(shape, [3]Layout{Reversed}, l)...)
		}
	}
}
