package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// linears by the leading axes of x, what goes in and what comes out.
var linears = []struct {
	lead  []int
	k, n  int
	x, w  Layout
	bias  Layout
	plain bool // without a bias
}{
	{nil, 1, 1, Contiguous, Contiguous, Contiguous, false},
	{nil, 3, 4, Contiguous, Contiguous, Contiguous, false},
	{nil, 3, 4, Reversed, Contiguous, Contiguous, true},
	{[]int{2}, 3, 4, Contiguous, Contiguous, Contiguous, false},
	{[]int{2}, 3, 4, Contiguous, Contiguous, Contiguous, true},
	{[]int{5}, 7, 3, Transposed, Transposed, Stepped, false},
	{[]int{5}, 7, 3, Stepped, Reversed, Reversed, false},
	{[]int{5}, 7, 3, BroadcastFirst, BroadcastLast, BroadcastAll, false},
	{[]int{4}, 6, 5, BroadcastAll, Offset, Offset, false},
	{[]int{3}, 0, 2, Contiguous, Contiguous, Contiguous, false}, // an empty sum is zero
	{[]int{3}, 0, 2, Contiguous, Contiguous, Contiguous, true},
	{[]int{0}, 3, 2, Contiguous, Contiguous, Contiguous, false},
	{[]int{2}, 3, 0, Contiguous, Contiguous, Contiguous, false},
	{[]int{2, 3}, 4, 5, Contiguous, Contiguous, Contiguous, false},
	{[]int{2, 3}, 4, 5, Swapped, Contiguous, Contiguous, false},
	{[]int{2, 3}, 4, 5, BroadcastFirst, Transposed, Contiguous, true},
	{[]int{2, 3}, 4, 5, Mixed, Contiguous, Offset, false},
	{[]int{2, 1, 3}, 5, 4, Mixed, Transposed, Contiguous, false},
	{[]int{2, 0, 3}, 5, 4, Contiguous, Contiguous, Contiguous, false},
	{[]int{1}, 33, 65, Contiguous, Contiguous, Contiguous, false},
	{[]int{65}, 33, 1, Contiguous, Contiguous, Contiguous, false},
	{[]int{65}, 33, 1, Transposed, Contiguous, Contiguous, false},
	{[]int{17}, 33, 16, Contiguous, Contiguous, Contiguous, false},
	{[]int{33}, 65, 31, Contiguous, Transposed, Contiguous, false},
	{[]int{31}, 300, 47, Transposed, Contiguous, Contiguous, false},
	{[]int{4, 9}, 40, 24, Contiguous, Contiguous, Contiguous, false},
	{[]int{129}, 257, 131, Contiguous, Contiguous, Contiguous, false},
	{[]int{200}, 264, 160, Contiguous, Contiguous, Contiguous, false}, // aligned
	{[]int{3, 64}, 128, 96, Swapped, Contiguous, Contiguous, true},
}

func (b *builder) linear() {
	for i, l := range linears {
		rows := op.Elements(l.lead)
		big := rows*l.k*l.n >= 1<<18
		if big && b.d != dtype.Float32 && b.d != dtype.BFloat16 {
			continue
		}
		of := func(n int) []int { return append(slices.Clone(l.lead), n) }
		with := func(act op.ID, v Domain) {
			in := []Operand{b.in(of(l.k), l.x, v), b.in([]int{l.n, l.k}, l.w, Ordinary)}
			if !l.plain {
				in = append(in, b.in([]int{l.n}, l.bias, Ordinary))
			}
			b.add(op.Epilogue{Act: act}, of(l.n), in...)
		}
		with(op.Invalid, Ordinary)
		switch {
		case big: // one activation each
			with(op.Activations[i%len(op.Activations)], Ordinary)
			continue
		case rows*l.k*l.n > 100: // where activations at -Inf are a limit, formulas miss it
			with(op.Invalid, Gaps)
			with(op.Relu, Gaps)
		}
		for _, act := range op.Activations {
			with(act, Ordinary)
		}
	}
}
