package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

func (b *builder) indexing() {
	switch b.def.ID {
	case op.Gather, op.ScatterAdd, op.Scatter:
		b.gathers()
	case op.Take, op.IndexAdd:
		b.takes()
	case op.Concat:
		b.concats()
	case op.Padded:
		b.pads()
	case op.CumSum, op.CumMax, op.CumMin, op.ArgSort:
		b.scans()
	}
}

func (b *builder) gathers() {
	for _, g := range []struct {
		x, index []int
		axis     int
		xl, il   Layout
	}{
		{[]int{5}, []int{7}, 0, Contiguous, Contiguous},
		{[]int{4, 3}, []int{2, 3}, 0, Contiguous, Contiguous},
		{[]int{4, 3}, []int{4, 5}, 1, Contiguous, Transposed},
		{[]int{4, 3}, []int{3, 2}, 1, Transposed, Contiguous},
		{[]int{4, 3}, []int{4, 1}, 1, Reversed, Stepped},
		{[]int{3, 4, 5}, []int{2, 6, 3}, 1, Mixed, Mixed},
		{[]int{3, 4, 5}, []int{3, 4, 2}, 2, BroadcastFirst, BroadcastLast},
		{[]int{4, 3}, []int{0, 3}, 0, Contiguous, Contiguous},
		{[]int{2, 2, 3, 2, 2}, []int{2, 1, 7, 2, 2}, 2, Contiguous, Contiguous},
		{[]int{300, 70}, []int{300, 1}, 1, Contiguous, Contiguous},
		{[]int{50, 33}, []int{1100, 33}, 0, Contiguous, Contiguous},
	} {
		a := op.Axis{Axis: g.axis}
		x, index := b.in(g.x, g.xl, Ordinary), b.index(g.index, g.il, g.x[g.axis])
		if b.def.ID == op.Gather {
			b.add(a, g.index, x, index)
			if b.d.IsFloat() {
				x.Domain = Special
				b.add(a, g.index, x, index)
			}
		} else {
			b.add(a, g.x, x, index, b.in(g.index, g.il, Ordinary))
		}
	}
}

func (b *builder) takes() {
	for _, g := range []struct {
		x, index []int
		axis     int
		xl, il   Layout
	}{
		{[]int{5}, []int{7}, 0, Contiguous, Contiguous},
		{[]int{5, 3}, []int{}, 0, Contiguous, Contiguous},
		{[]int{5, 3}, []int{2, 2}, 0, Contiguous, Contiguous},
		{[]int{3, 5}, []int{4}, 1, Contiguous, Reversed},
		{[]int{3, 5}, []int{2, 3}, 1, Transposed, Transposed},
		{[]int{2, 4, 3}, []int{5}, 1, Mixed, Stepped},
		{[]int{2, 4, 3}, []int{2, 1}, 2, Reversed, BroadcastFirst},
		{[]int{4, 3}, []int{0}, 0, Contiguous, Contiguous},
		{[]int{4, 0}, []int{3}, 0, Contiguous, Contiguous},
		{[]int{2, 2, 3, 2}, []int{7}, 2, Contiguous, Contiguous},
		{[]int{100, 64}, []int{1030}, 0, Contiguous, Contiguous}, // an embedding
		{[]int{1000, 3}, []int{33, 31}, 0, Contiguous, Contiguous},
	} {
		a := op.Axis{Axis: g.axis}
		out := slices.Concat(g.x[:g.axis], g.index, g.x[g.axis+1:])
		x, index := b.in(g.x, g.xl, Ordinary), b.index(g.index, g.il, g.x[g.axis])
		if b.def.ID == op.Take {
			b.add(a, out, x, index)
		} else {
			b.add(a, g.x, x, index, b.in(out, g.xl, Ordinary))
		}
	}
}

func (b *builder) concats() {
	for _, c := range []struct {
		axis    int
		shapes  [][]int
		layouts []Layout
	}{
		{0, [][]int{{3}}, []Layout{Contiguous}},
		{0, [][]int{{3}, {4}}, []Layout{Contiguous, Reversed}},
		{0, [][]int{{2, 3}, {1, 3}, {4, 3}}, []Layout{Contiguous, Offset, Transposed}},
		{1, [][]int{{2, 3}, {2, 1}, {2, 4}}, []Layout{Contiguous, Contiguous, Contiguous}},
		{1, [][]int{{2, 3, 4}, {2, 2, 4}}, []Layout{Mixed, Swapped}},
		{2, [][]int{{2, 3, 4}, {2, 3, 1}}, []Layout{BroadcastFirst, BroadcastLast}},
		{0, [][]int{{0, 3}, {2, 3}, {0, 3}}, []Layout{Contiguous, Contiguous, Contiguous}},
		{0, [][]int{{0}, {0}}, []Layout{Contiguous, Contiguous}},
		{3, [][]int{{2, 1, 2, 2, 2}, {2, 1, 2, 3, 2}}, []Layout{Contiguous, Mixed}},
		{0, [][]int{{500, 3}, {27, 3}}, []Layout{Contiguous, Contiguous}},
		{1, [][]int{{200, 90}, {200, 91}}, []Layout{Contiguous, Contiguous}},
		{0, slices.Repeat([][]int{{2, 3}}, 40), slices.Repeat([]Layout{Contiguous}, 40)},
	} {
		out := slices.Clone(c.shapes[0])
		out[c.axis] = 0
		var in []Operand
		for i, s := range c.shapes {
			out[c.axis] += s[c.axis]
			v := Ordinary
			if i == 1 && b.d.IsFloat() && len(c.shapes) == 3 {
				v = Special
			}
			in = append(in, b.in(s, c.layouts[i], v))
		}
		b.add(op.Axis{Axis: c.axis}, out, in...)
	}
}

func (b *builder) pads() {
	for _, p := range []struct {
		shape, low, high, interior []int
		layout                     Layout
	}{
		{[]int{}, nil, nil, nil, Contiguous},
		{[]int{3}, []int{2}, []int{1}, []int{0}, Contiguous},
		{[]int{3}, []int{0}, []int{0}, []int{0}, Contiguous},
		{[]int{3}, []int{0}, []int{0}, []int{2}, Reversed},
		{[]int{0}, []int{2}, []int{1}, []int{3}, Contiguous},
		{[]int{1}, []int{1}, []int{1}, []int{5}, Contiguous},
		{[]int{2, 3}, []int{1, 0}, []int{0, 2}, []int{1, 0}, Transposed},
		{[]int{2, 3, 4}, []int{0, 1, 2}, []int{2, 1, 0}, []int{0, 2, 1}, Mixed},
		{[]int{2, 3, 4}, []int{0, 1, 1}, []int{0, 1, 1}, []int{0, 0, 0}, BroadcastFirst},
		{[]int{2, 1, 2, 1, 3}, []int{1, 1, 0, 0, 1}, []int{0, 1, 0, 2, 1}, []int{1, 0, 1, 0, 1}, Stepped},
		{[]int{1027}, []int{3}, []int{5}, []int{0}, Contiguous},
		{[]int{8, 3, 32, 32}, []int{0, 0, 2, 2}, []int{0, 0, 2, 2}, []int{0, 0, 0, 0}, Contiguous},
	} {
		out := slices.Clone(p.shape)
		for i, n := range p.shape {
			out[i] = p.low[i] + n + max(0, n-1)*p.interior[i] + p.high[i]
		}
		for _, x := range []float64{0, 1, -2.5} {
			if b.d == dtype.Bool && x < 0 || b.d.IsInt() && x < 0 {
				x = 1
			}
			b.add(op.Pad{Low: op.DimsOf(p.low), High: op.DimsOf(p.high), Interior: op.DimsOf(p.interior), Value: x}, out, b.in(p.shape, p.layout, Ordinary))
		}
	}
}

// lines are shapes with an axis along which something runs; the last are
// split between threads.
var lines = []struct {
	shape  []int
	axis   int
	layout Layout
}{
	{[]int{1}, 0, Contiguous},
	{[]int{5}, 0, Contiguous},
	{[]int{5}, 0, Reversed},
	{[]int{2, 3}, 0, Contiguous},
	{[]int{2, 3}, 1, Contiguous},
	{[]int{3, 4}, 0, Transposed},
	{[]int{3, 4}, 1, Transposed},
	{[]int{3, 4}, 0, BroadcastLast},
	{[]int{3, 4}, 1, Stepped},
	{[]int{2, 3, 4}, 1, Contiguous},
	{[]int{2, 3, 4}, 1, Mixed},
	{[]int{2, 3, 4}, 2, BroadcastFirst},
	{[]int{2, 2, 3, 2, 3}, 2, Contiguous},
	{[]int{2, 17}, 0, Transposed}, // one more line than a bundle, each contiguous
	{[]int{3, 33}, 0, Contiguous},
	{[]int{0, 3}, 1, Contiguous},
	{[]int{1027}, 0, Contiguous},
	{[]int{7, 129}, 1, Contiguous},
	{[]int{129, 7}, 0, Contiguous},
	{[]int{300, 131}, 1, Contiguous},
	{[]int{131, 300}, 0, Contiguous},
	{[]int{1, 40001}, 1, Contiguous},
}

func (b *builder) scans() {
	out := b.d
	reversible := b.def.ID == op.CumSum || b.def.ID == op.ArgSort
	domains := []Domain{Ordinary, Few}
	if b.def.ID != op.CumSum {
		out = dtype.Int64
		domains = []Domain{Distinct, Few, Special}
	} else if b.d.IsFloat() {
		domains = append(domains, Gaps)
	}
	for _, l := range append(lines[:len(lines):len(lines)], struct {
		shape  []int
		axis   int
		layout Layout
	}{[]int{3, 0}, 1, Contiguous}) {
		if op.Elements(l.shape) >= bigFrom && b.d != dtype.Float32 {
			continue
		}
		for i, v := range domains {
			if i > 0 && op.Elements(l.shape) >= bigFrom {
				continue
			}
			b.addTyped(op.Axis{Axis: l.axis, Reverse: i%2 == 1 && reversible}, out, l.shape, b.in(l.shape, l.layout, v))
			if !reversible {
				continue
			}
			b.addTyped(op.Axis{Axis: l.axis, Reverse: i%2 == 0}, out, l.shape, b.in(l.shape, l.layout, v))
		}
	}
}
