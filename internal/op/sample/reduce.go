package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// reductions of shapes over sets of axes; the last two are split between threads.
var reductions = []struct {
	shape  []int
	axes   []int
	layout Layout
}{
	{[]int{}, nil, Contiguous},
	{[]int{1}, []int{0}, Contiguous},
	{[]int{5}, []int{0}, Contiguous},
	{[]int{5}, nil, Contiguous},
	{[]int{2, 3}, []int{0}, Contiguous},
	{[]int{2, 3}, []int{1}, Contiguous},
	{[]int{4, 3}, []int{0, 1}, Reversed},
	{[]int{4, 3}, []int{0}, Transposed},
	{[]int{4, 3}, []int{1}, Transposed},
	{[]int{4, 3}, []int{1}, BroadcastLast},
	{[]int{4, 3}, []int{0}, BroadcastFirst},
	{[]int{5, 4}, []int{1}, Stepped},
	{[]int{2, 3, 4}, []int{1}, Contiguous},
	{[]int{2, 3, 4}, []int{0, 2}, Contiguous},
	{[]int{2, 3, 4}, []int{0, 1}, Mixed},
	{[]int{2, 3, 4}, []int{2}, Swapped},
	{[]int{2, 3, 2, 2, 3}, []int{0, 2, 4}, Mixed},
	{[]int{2, 3, 2, 2, 3}, []int{1, 3}, Contiguous},
	{[]int{3, 0}, []int{0}, Contiguous},
	{[]int{0, 3}, []int{0}, Contiguous},
	{[]int{1027}, []int{0}, Contiguous},
	{[]int{1025}, []int{0}, Offset},
	{[]int{3, 1027}, []int{1}, Contiguous},
	{[]int{1027, 3}, []int{0}, Contiguous},
	{[]int{65, 33}, []int{0}, Contiguous},
	{[]int{65, 33}, []int{1}, Transposed},
	{[]int{3, 65, 17}, []int{0, 2}, Contiguous},
	{[]int{300, 257}, []int{0, 1}, Contiguous},
	{[]int{300, 257}, []int{0}, Contiguous},
	{[]int{300, 257}, []int{1}, Contiguous},
	{[]int{2, 40001}, []int{1}, Contiguous},
}

func (b *builder) reductions() {
	base, more := Ordinary, []Domain{Gaps, Few}
	switch b.def.ID {
	case op.Max, op.Min, op.ArgMax, op.ArgMin:
		base = Distinct
	case op.Prod:
		base = Gentle
	}
	arg := b.def.ID == op.ArgMax || b.def.ID == op.ArgMin
	noEmpty := arg || b.def.ID == op.Max || b.def.ID == op.Min
	for _, r := range reductions {
		out := slices.Clone(r.shape)
		empty := false
		for _, a := range r.axes {
			empty = empty || out[a] == 0
			out[a] = 1
		}
		big := op.Elements(r.shape) >= bigFrom
		if noEmpty && empty || arg && len(r.axes) != 1 || big && b.d != dtype.Float32 && b.def.ID != op.Sum {
			continue
		}
		domains := []Domain{base}
		if n := op.Elements(r.shape); n >= 12 && !big {
			domains = append(domains, more...)
		}
		for _, v := range domains {
			if arg {
				b.addTyped(op.Axis{Axis: r.axes[0]}, dtype.Int64, out, b.in(r.shape, r.layout, v))
			} else {
				b.add(op.Reduce{Axes: op.AxesOf(r.axes...)}, out, b.in(r.shape, r.layout, v))
			}
		}
	}
}
