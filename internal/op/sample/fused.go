package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

func (b *builder) fused() {
	switch b.def.ID {
	case op.Attend, op.AttendGrad:
		b.attention()
	case op.Normalized, op.NormalizeGrad, op.BatchNorm, op.BatchNormGrad:
		b.normalize()
	case op.CrossEntropy, op.CrossEntropyGrad:
		b.classes()
	case op.GridSample, op.GridSampleGradInput, op.GridSampleGradGrid:
		b.grid()
	case op.CTC, op.CTCGrad:
		b.ctc()
	case op.Linear:
		b.linear()
	case op.Recurrent, op.RecurrentGrad:
		b.recurrent()
	case op.ConvAct:
		b.convolutions()
	case op.Blend, op.BlendSquare, op.AdamStep:
		b.optimize()
	case op.UpdateAll, op.GlobalNorm, op.ScaleAll, op.CastAll:
		b.lists()
	case op.Softmax, op.SoftmaxGrad, op.LogSoftmax, op.LogSoftmaxGrad:
		b.softmax()
	}
}

func (b *builder) softmax() {
	for _, l := range lines {
		if op.Elements(l.shape) >= bigFrom && b.d != dtype.Float32 {
			continue
		}
		a := op.Axis{Axis: l.axis}
		x := b.in(l.shape, l.layout, Ordinary)
		switch b.def.ID {
		case op.SoftmaxGrad:
			b.add(a, l.shape, x, b.in(l.shape, Contiguous, Fraction))
		case op.LogSoftmaxGrad:
			b.add(a, l.shape, x, b.in(l.shape, l.layout, Ordinary))
		default:
			b.add(a, l.shape, x)
			x.Domain = Wide
			b.add(a, l.shape, x)
			if l.axis == len(l.shape)-1 && len(l.shape) == 1 && l.layout == Contiguous {
				x.Domain = Masked
				b.add(a, l.shape, x)
			}
		}
	}
}

func (b *builder) attention() {
	for _, s := range []struct {
		batch        []int
		l, s, d, e   int
		causal       bool
		mask         dtype.DType // Invalid: none
		qkv, maskLay Layout
	}{
		{nil, 1, 1, 1, 1, false, 0, Contiguous, Contiguous},
		{nil, 3, 4, 2, 5, false, 0, Contiguous, Contiguous},
		{[]int{2}, 3, 4, 2, 3, false, 0, Swapped, Contiguous},
		{[]int{2}, 4, 4, 3, 3, true, 0, Contiguous, Contiguous},
		{[]int{2}, 3, 4, 2, 3, false, b.d, Contiguous, BroadcastFirst},
		{[]int{2}, 3, 4, 2, 3, false, dtype.Bool, Contiguous, Contiguous},
		{[]int{2, 2}, 5, 5, 4, 4, true, dtype.Bool, Transposed, BroadcastAll},
		{[]int{2, 3}, 33, 33, 16, 16, true, 0, Contiguous, Contiguous},
		{[]int{1, 2}, 70, 65, 32, 24, false, 0, Contiguous, Contiguous},
		{[]int{2}, 130, 70, 16, 40, true, 0, Contiguous, Contiguous},
		{[]int{2}, 20, 150, 72, 80, true, b.d, Contiguous, BroadcastFirst},
		{[]int{1}, 150, 140, 128, 16, false, dtype.Bool, Contiguous, Contiguous},
		{[]int{2, 3}, 130, 130, 64, 64, false, 0, Swapped, Contiguous}, // large enough for kernels of every kind
		{[]int{2}, 129, 129, 72, 72, true, dtype.Bool, Contiguous, Contiguous},
		{[]int{1}, 9, 11, 130, 140, false, 0, Contiguous, Contiguous},
		{[]int{1}, 70, 300, 4, 3, true, 0, Contiguous, Contiguous},
		{[]int{4, 5}, 7, 6, 3, 4, false, dtype.Bool, Swapped, Contiguous},
		{[]int{0}, 3, 4, 2, 3, false, 0, Contiguous, Contiguous},
	} {
		of := func(r, c int) []int { return append(slices.Clone(s.batch), r, c) }
		in := []Operand{b.in(of(s.l, s.d), s.qkv, Ordinary), b.in(of(s.s, s.d), s.qkv, Ordinary), b.in(of(s.s, s.e), s.qkv, Ordinary)}
		out := of(s.l, s.e)
		if b.def.ID == op.AttendGrad { // any y will do
			saved := op.Get(op.Attend).More(nil, []op.Spec{{DType: b.d, Shape: in[0].Shape}})[0]
			in = append([]Operand{b.in(out, s.qkv, Ordinary)}, append(in, b.in(out, Contiguous, Ordinary), Operand{Shape: saved.Shape, DType: saved.DType, Domain: Saved})...)
			out = []int{op.Elements(in[1].Shape) + op.Elements(in[2].Shape) + op.Elements(in[3].Shape)}
		}
		if s.mask != dtype.Invalid {
			in = append(in, Operand{Shape: of(s.l, s.s), DType: s.mask, Layout: s.maskLay})
		}
		b.add(op.Attention{Scale: 0.5, Causal: s.causal}, out, in...)
		rows := op.Attention{Scale: 0.5, Causal: s.causal, Rows: true}
		switch n := len(s.batch); {
		case n == 0:
		case b.def.ID == op.Attend:
			b.add(rows, append(slices.Clone(s.batch[:n-1]), s.l, s.batch[n-1], s.e), in...)
		case s.l == s.s && s.d == s.e:
			b.add(rows, append(slices.Clone(s.batch[:n-1]), s.l, 3, s.batch[n-1], s.d), in...)
		}
	}
}

func (b *builder) optimize() {
	for _, r := range reductions { // any shapes and layouts will do
		if op.Elements(r.shape) >= bigFrom && b.d != dtype.Float32 {
			continue
		}
		x := b.in(r.shape, r.layout, Ordinary)
		y := b.in(r.shape, Contiguous, Ordinary)
		if b.def.ID == op.AdamStep {
			b.add(op.Adam{Keep: 0.99, Rate: 0.5, Root: 1.5, Eps: 0.01}, r.shape, x, y, b.in(r.shape, r.layout, Fraction))
			continue
		}
		b.add(op.Scales{A: 0.75, B: -0.5}, r.shape, x, y)
		b.add(op.Scales{A: 1, B: 0.125}, r.shape, y, x)
	}
}
