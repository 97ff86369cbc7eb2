package sample

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// A tensor of a list.
type listed struct {
	shape  []int
	layout Layout
}

// listsOf are lists of tensors. The first of a list is not empty: ops whose first
// result has no elements are not run.
var listsOf = [][]listed{
	{{[]int{3}, Contiguous}, {[]int{2, 3}, Contiguous}},
	{{[]int{}, Contiguous}},
	{{[]int{5}, Offset}, {[]int{0, 3}, Contiguous}, {[]int{4, 3}, Transposed}, {[]int{1}, Contiguous}},
	{{[]int{4, 3}, Reversed}, {[]int{5, 4}, Stepped}, {[]int{4, 3}, BroadcastFirst}},
	{{[]int{1027}, Contiguous}, {[]int{65, 33}, Contiguous}, {[]int{1025}, Offset}, {[]int{3, 2, 5}, Mixed}, {[]int{2048}, Contiguous}},
	manyListed(201),
	{{[]int{7}, Contiguous}, {[]int{300, 301}, Contiguous}, {[]int{70001}, Contiguous}, {[]int{2, 3}, Contiguous}},
}

// manyListed are more tensors than a kernel's parameters can name.
func manyListed(n int) (l []listed) {
	for i := range n {
		l = append(l, listed{[]int{1 + i%7, 1 + i%3}, Contiguous})
	}
	return l
}

func (b *builder) lists() {
	for _, l := range listsOf {
		big := 0
		for _, x := range l {
			big = max(big, op.Elements(x.shape))
		}
		if big >= bigFrom && b.d != dtype.Float32 {
			continue
		}
		one := b.in([]int{1}, Contiguous, Ordinary)
		var in []Operand
		for _, x := range l {
			in = append(in, b.in(x.shape, x.layout, Ordinary))
		}
		switch b.def.ID {
		case op.GlobalNorm:
			d := dtype.Float32
			if b.d == dtype.Float64 {
				d = b.d
			}
			b.addTyped(nil, d, nil, in...)
		case op.ScaleAll:
			b.add(nil, l[0].shape, append(in, one)...)
		case op.CastAll:
			for _, d := range dtype.Floats.List() {
				b.addTyped(op.Cast{To: d}, d, l[0].shape, in...)
			}
		case op.UpdateAll:
			for _, u := range updates {
				b.update(u, l)
			}
		}
	}
	if b.def.ID == op.GlobalNorm { // squares that overflow where they are added in the elements' own type
		d := dtype.Float32
		if b.d == dtype.Float64 {
			d = b.d
		}
		b.addTyped(nil, d, nil, b.in([]int{100}, Contiguous, Wide), b.in([]int{3}, Contiguous, Wide))
		b.addTyped(nil, d, nil, b.in([]int{100}, Contiguous, Gaps))
	}
}

// update adds a sample of an optimizer's step on a list, with every second one gated and
// every third one scaled. BadOf wants the first one to have neither.
func (b *builder) update(u op.Update, l []listed) {
	n := len(b.samples)
	u.Scaled, u.Gated, u.First = n%3 == 1, n%2 == 1, n%5 == 4
	var in []Operand
	for _, x := range l {
		in = append(in, b.in(x.shape, x.layout, Ordinary), b.in(x.shape, Contiguous, Ordinary))
		for k := range u.Each() - 2 {
			s := b.in(x.shape, x.layout, Ordinary)
			switch {
			case u.Rule == op.RMSPropRule && u.Centered && k == 1: // its square is at most the average of squares
				s.Domain = Unit
			case u.Rule != op.SGDRule && !(u.Rule == op.AdamRule && k == 0) && !(u.Momentum != 0 && k == u.Slots()-1 && u.Rule == op.RMSPropRule):
				s.Domain = Positive // averages of squares
			}
			if u.Rule == op.RMSPropRule && u.Centered && k == 0 {
				s.Domain = AboveOne
			}
			in = append(in, s)
		}
	}
	if u.Scaled {
		in = append(in, b.in([]int{}, Contiguous, Fraction))
	}
	if u.Gated {
		in = append(in, Operand{Shape: []int{1}, DType: dtype.Bool})
	}
	b.add(u, l[0].shape, in...)
}

// updates has every rule with and without what it may do more.
var updates = []op.Update{
	{Rule: op.SGDRule, Rate: 0.1, Keep: 1},
	{Rule: op.SGDRule, Rate: 0.1, Keep: 1, Decay: 0.25, Momentum: 0.9, Fresh: 0.5},
	{Rule: op.SGDRule, Rate: 0.1, Keep: 0.75, Momentum: 0.9, Fresh: 1, Nesterov: true},
	{Rule: op.AdamRule, Rate: 0.5, Keep: 0.99, Momentum: 0.9, Beta: 0.75, Root: 1.5, Eps: 0.01},
	{Rule: op.AdamRule, Rate: 0.5, Keep: 1, Decay: 0.25, Momentum: 0.9, Beta: 0.75, Root: 1.5, Eps: 0.01},
	{Rule: op.RMSPropRule, Rate: 0.1, Keep: 1, Beta: 0.75, Eps: 0.1},
	{Rule: op.RMSPropRule, Rate: 0.1, Keep: 1, Beta: 0.75, Eps: 0.1, Momentum: 0.5, Decay: 0.25},
	{Rule: op.RMSPropRule, Rate: 0.1, Keep: 1, Beta: 0.9, Eps: 0.5, Centered: true},
	{Rule: op.RMSPropRule, Rate: 0.1, Keep: 1, Beta: 0.9, Eps: 0.5, Centered: true, Momentum: 0.5},
	{Rule: op.AdagradRule, Rate: 0.1, Keep: 1, Root: 1, Eps: 0.1, Start: 0.5},
	{Rule: op.AdagradRule, Rate: 0.1, Keep: 1, Root: 1, Eps: 0.1, Decay: 0.25},
}
