package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// grids by the shapes of x and of the places.
var grids = []struct {
	x, places    []int
	layout, grid Layout
}{
	{[]int{1, 1, 1, 1}, []int{1, 1}, Contiguous, Contiguous},
	{[]int{2, 3, 4, 5}, []int{3, 2}, Contiguous, Contiguous},
	{[]int{1, 2, 3, 4}, []int{2, 5}, Transposed, Reversed},
	{[]int{2, 2, 5, 3}, []int{4, 3}, Stepped, Swapped},
	{[]int{1, 2, 3, 2, 4}, []int{2, 3, 2}, Contiguous, Contiguous},
	{[]int{2, 1, 2, 3, 3}, []int{1, 2, 3}, Reversed, Transposed},
	{[]int{0, 2, 3, 3}, []int{2, 2}, Contiguous, Contiguous},
	{[]int{1, 0, 3, 3}, []int{2, 2}, Contiguous, Contiguous},
	{[]int{2, 2, 3, 3}, []int{0, 2}, Contiguous, Contiguous},
	{[]int{1, 3, 17, 19}, []int{31, 37}, Contiguous, BroadcastAll},
	{[]int{2, 16, 33, 40}, []int{30, 35}, Contiguous, Contiguous},
	{[]int{1, 8, 9, 20, 25}, []int{8, 19, 30}, Contiguous, Contiguous},
}

func (b *builder) grid() {
	for i, s := range grids {
		d := len(s.places)
		out := append(slices.Clone(s.x[:2]), s.places...)
		if max(op.Elements(s.x), op.Elements(out)) >= bigFrom && b.d != dtype.Float32 && b.d != dtype.BFloat16 {
			continue
		}
		where := append(append([]int{s.x[0]}, s.places...), d)
		for k := range 12 {
			if i > 5 && k%5 != i%5 { // not every pair of the large and the empty
				continue
			}
			a := op.Grid{Nearest: k%2 == 1, Padding: k / 2 % 3, Corners: k/6 == 1}
			domain := Ordinary
			if k%4 == 0 {
				domain = Unit
			}
			x, g, grid := b.in(s.x, s.layout, Ordinary), b.in(out, s.layout, Ordinary), b.in(where, s.grid, domain)
			switch b.def.ID {
			case op.GridSample:
				b.add(a, out, x, grid)
			case op.GridSampleGradInput:
				a.Size = op.DimsOf(s.x[2:])
				b.add(a, s.x, g, grid)
			case op.GridSampleGradGrid:
				b.add(a, where, g, x, grid)
			}
		}
	}
}

func badGrids(id op.ID) []badShape {
	x, g, grid := []int{2, 3, 4, 5}, []int{2, 3, 3, 2}, []int{2, 3, 2, 2}
	a := op.Grid{}
	switch id {
	case op.GridSample:
		return []badShape{
			{"batches differ", op.ErrShape, a, specs([]int{1, 3, 4, 5}, grid)},
			{"three numbers for images", op.ErrShape, a, specs(x, []int{2, 3, 2, 3})},
			{"three dimensions", op.ErrShape, a, specs(x[1:], grid[1:])},
			{"an image without elements", op.ErrShape, a, specs([]int{2, 3, 0, 5}, grid)},
			{"a padding that there is not", op.ErrArgument, op.Grid{Padding: 3}, specs(x, grid)},
			{"attributes of another op", op.ErrArgument, op.Axis{}, specs(x, grid)},
		}
	case op.GridSampleGradInput:
		a.Size = op.DimsOf(x[2:])
		return []badShape{
			{"a gradient of the wrong size", op.ErrShape, a, specs([]int{2, 3, 2, 2}, grid)},
			{"no size", op.ErrShape, op.Grid{}, specs(g, grid)},
			{"a negative size", op.ErrShape, op.Grid{Size: op.DimsOf([]int{-1, 5})}, specs(g, grid)},
			{"an empty size", op.ErrShape, op.Grid{Size: op.DimsOf([]int{0, 5})}, specs(g, grid)},
		}
	}
	return []badShape{
		{"a gradient of the wrong size", op.ErrShape, a, specs([]int{2, 3, 2, 2}, x, grid)},
		{"batches differ", op.ErrShape, a, specs(g, []int{1, 3, 4, 5}, grid)},
	}
}
