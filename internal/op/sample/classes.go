package sample

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

func (b *builder) classes() {
	wide := dtype.Float32
	if b.d == dtype.Float64 {
		wide = dtype.Float64
	}
	for i, s := range []struct {
		n, c   int
		layout Layout
	}{
		{1, 1, Contiguous}, {1, 7, Contiguous}, {5, 3, Contiguous}, {4, 9, Transposed}, {3, 8, Reversed}, {6, 5, Stepped}, {4, 6, BroadcastFirst},
		{0, 3, Contiguous}, {257, 10, Contiguous}, {9, 1000, Contiguous}, {3, 1025, Offset}, {2, 4099, Contiguous}, {5, 9000, Contiguous}, {2, 40000, Contiguous},
		{2000, 33, Contiguous}, {300, 130, Transposed},
	} {
		if s.n*s.c >= bigFrom && b.d != dtype.Float32 && b.d != dtype.BFloat16 {
			continue
		}
		for _, domain := range []Domain{Ordinary, Wide, Masked} {
			if domain != Ordinary && (b.def.ID == op.CrossEntropyGrad || i%3 != 1) {
				continue
			}
			if domain == Masked && s.n != 1 { // a hidden class as the target is an infinite loss
				continue
			}
			x := b.in([]int{s.n, s.c}, s.layout, domain)
			index := b.index([]int{s.n}, []Layout{Contiguous, Reversed, Stepped}[i%3], s.c)
			if domain == Masked {
				index.Limit = 1
			}
			if b.def.ID == op.CrossEntropy {
				b.addTyped(nil, wide, []int{s.n}, x, index)
				continue
			}
			saved := Operand{Shape: []int{s.n}, DType: wide, Domain: Saved}
			g := Operand{Shape: []int{s.n}, DType: wide, Layout: []Layout{Contiguous, BroadcastAll, Stepped}[i%3]}
			b.add(nil, []int{s.n, s.c}, x, index, g, saved, saved)
		}
	}
}

func badClasses(id op.ID) []badShape {
	x := op.Spec{DType: dtype.Float32, Shape: []int{4, 3}}
	classes := op.Spec{DType: dtype.Int64, Shape: []int{4}}
	row := op.Spec{DType: dtype.Float32, Shape: []int{4}}
	with := func(s op.Spec, f func(*op.Spec)) op.Spec { f(&s); return s }
	flat := with(x, func(s *op.Spec) { s.Shape = []int{12} })
	short := with(classes, func(s *op.Spec) { s.Shape = []int{3} })
	if id == op.CrossEntropy {
		return []badShape{
			{"scores that are no matrix", op.ErrShape, nil, []op.Spec{flat, classes}},
			{"too few classes", op.ErrShape, nil, []op.Spec{x, short}},
		}
	}
	return []badShape{
		{"scores that are no matrix", op.ErrShape, nil, []op.Spec{flat, classes, row, row, row}},
		{"too few classes", op.ErrShape, nil, []op.Spec{x, short, row, row, row}},
		{"a gradient of the wrong size", op.ErrShape, nil, []op.Spec{x, classes, flat, row, row}},
		{"a gradient of another type", op.ErrDType, nil, []op.Spec{x, classes, with(row, func(s *op.Spec) { s.DType = dtype.Float16 }), row, row}},
		{"what is saved of another type", op.ErrDType, nil, []op.Spec{x, classes, row, row, with(row, func(s *op.Spec) { s.DType = dtype.Float64 })}},
	}
}
