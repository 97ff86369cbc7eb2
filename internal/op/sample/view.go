package sample

import "github.com/locusml/locus/internal/op"

func (b *builder) views() {
	one := func(a op.Attrs, from, to []int) { b.add(a, to, b.in(from, Contiguous, Ordinary)) }
	switch b.def.ID {
	case op.Reshape:
		for _, s := range [][2][]int{{{2, 3}, {6}}, {{6}, {3, 2}}, {{2, 3, 4}, {4, 6}}, {{}, {1, 1}}, {{1}, {}}, {{0, 3}, {5, 0}}} {
			one(op.Shape{Shape: op.DimsOf(s[1])}, s[0], s[1])
		}
	case op.Expand:
		for _, s := range [][2][]int{{{3}, {2, 3}}, {{2, 1}, {2, 4}}, {{}, {2, 2}}, {{1, 3, 1}, {2, 2, 3, 4}}, {{1}, {0}}, {{2, 3}, {2, 3}}} {
			one(op.Shape{Shape: op.DimsOf(s[1])}, s[0], s[1])
		}
	case op.Permutation:
		for _, s := range [][3][]int{{{2, 3}, {1, 0}, {3, 2}}, {{2, 3, 4}, {1, 2, 0}, {3, 4, 2}}, {{}, {}, {}}, {{2, 1, 3, 2}, {3, 1, 0, 2}, {2, 1, 2, 3}}} {
			one(op.Permute{Perm: op.DimsOf(s[1])}, s[0], s[2])
		}
	case op.Sliced:
		for _, s := range [][4][]int{{{5}, {1}, {3}, {1}}, {{6}, {5}, {3}, {-2}}, {{4, 5}, {0, 4}, {2, 5}, {2, -1}}, {{3, 3}, {1, 0}, {0, 3}, {1, 1}}} {
			one(op.Slice{Start: op.DimsOf(s[1]), Len: op.DimsOf(s[2]), Step: op.DimsOf(s[3])}, s[0], s[2])
		}
	case op.DiagonalView:
		for _, s := range []struct {
			a        op.Diagonal
			from, to []int
		}{
			{op.Diagonal{A: 0, B: 1}, []int{3, 3}, []int{3}},
			{op.Diagonal{A: 0, B: 1, Offset: 1}, []int{3, 4}, []int{3}},
			{op.Diagonal{A: 1, B: 0, Offset: -1}, []int{3, 4}, []int{3}},
			{op.Diagonal{A: 2, B: 0}, []int{2, 5, 3}, []int{5, 2}},
			{op.Diagonal{A: 0, B: 1, Offset: 7}, []int{2, 2}, []int{0}},
		} {
			one(s.a, s.from, s.to)
		}
	}
}
