package sample

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

func (b *builder) ctc() {
	wide := dtype.Float32
	if b.d == dtype.Float64 {
		wide = dtype.Float64
	}
	for i, s := range []struct {
		n, t, c, s int
		layout     Layout
	}{
		{1, 1, 1, 0, Contiguous}, {2, 5, 4, 2, Contiguous}, {3, 7, 3, 3, Transposed}, {2, 6, 5, 4, Reversed}, {4, 3, 2, 2, Stepped}, {1, 4, 6, 0, Contiguous},
		{0, 3, 3, 2, Contiguous}, {2, 0, 3, 2, Contiguous}, {3, 30, 8, 11, Contiguous}, {2, 50, 11, 40, Offset}, {5, 17, 40, 8, Mixed}, {1, 80, 5, 150, Contiguous}, {4, 120, 80, 20, Contiguous},
	} {
		if s.n*s.t*s.c >= bigFrom && b.d != dtype.Float32 {
			continue
		}
		a := op.Alignment{Blank: i % s.c}
		targets := b.index([]int{s.n, s.s}, []Layout{Contiguous, Reversed, Stepped}[i%3], s.c)
		steps, labels := b.index([]int{s.n}, Contiguous, s.t+1), b.index([]int{s.n}, Reversed, s.s+1)
		x := b.in([]int{s.n, s.t, s.c}, s.layout, Ordinary)
		if b.def.ID == op.CTC {
			b.addTyped(a, wide, []int{s.n}, x, targets, steps, labels)
			continue
		}
		g := Operand{Shape: []int{s.n}, DType: wide, Layout: []Layout{Contiguous, BroadcastAll, Stepped}[i%3]}
		saved := Operand{Shape: []int{s.n, s.t, 2*s.s + 1}, DType: wide, Domain: Saved}
		loss := Operand{Shape: []int{s.n}, DType: wide, Domain: Saved}
		b.add(a, x.Shape, x, targets, steps, labels, g, saved, loss)
	}
}

func badCTC(id op.ID) []badShape {
	f := func(shape ...int) op.Spec { return op.Spec{DType: dtype.Float32, Shape: shape} }
	n := func(shape ...int) op.Spec { return op.Spec{DType: dtype.Int64, Shape: shape} }
	a := op.Alignment{}
	rest := func(in ...op.Spec) []op.Spec {
		if id == op.CTCGrad {
			in = append(in, f(2), f(2, 4, 7), f(2))
		}
		return in
	}
	bad := []badShape{
		{"batches differ", op.ErrShape, a, rest(f(2, 4, 5), n(1, 3), n(2), n(2))},
		{"scores that are a matrix", op.ErrShape, a, rest(f(2, 4), n(2, 3), n(2), n(2))},
		{"too few lengths", op.ErrShape, a, rest(f(2, 4, 5), n(2, 3), n(1), n(2))},
		{"lengths of labels with two axes", op.ErrShape, a, rest(f(2, 4, 5), n(2, 3), n(2), n(2, 1))},
		{"a blank that is no class", op.ErrArgument, op.Alignment{Blank: 5}, rest(f(2, 4, 5), n(2, 3), n(2), n(2))},
		{"attributes of another op", op.ErrArgument, nil, rest(f(2, 4, 5), n(2, 3), n(2), n(2))},
	}
	if id == op.CTCGrad {
		ok := []op.Spec{f(2, 4, 5), n(2, 3), n(2), n(2)}
		bad = append(bad,
			badShape{"a gradient of the wrong size", op.ErrShape, a, append(ok[:4:4], f(3), f(2, 4, 7), f(2))},
			badShape{"what is saved of another type", op.ErrDType, a, append(ok[:4:4], f(2), op.Spec{DType: dtype.Float64, Shape: []int{2, 4, 7}}, f(2))})
	}
	return bad
}
