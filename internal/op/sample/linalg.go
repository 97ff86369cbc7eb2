package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// matrices by batch, rows and columns, and how they lie.
var matrices = []struct {
	batch  []int
	m, n   int
	layout Layout
}{
	{nil, 1, 1, Contiguous},
	{nil, 2, 2, Contiguous},
	{nil, 3, 3, Contiguous},
	{nil, 3, 3, Transposed},
	{nil, 4, 4, Stepped},
	{nil, 5, 5, Reversed},
	{nil, 6, 6, Offset},
	{[]int{3}, 3, 3, Contiguous},
	{[]int{3}, 4, 4, Swapped},
	{[]int{3}, 3, 3, BroadcastFirst},
	{[]int{2, 3}, 2, 2, Mixed},
	{[]int{0}, 3, 3, Contiguous},
	{[]int{2}, 0, 0, Contiguous},
	{[]int{40}, 3, 3, Contiguous},
	{nil, 4, 2, Contiguous},
	{nil, 5, 3, Transposed},
	{nil, 3, 1, Contiguous},
	{[]int{2}, 4, 3, Mixed},
	{[]int{2}, 7, 4, Reversed},
	{nil, 4, 0, Contiguous},
	{nil, 2, 4, Contiguous},
	{nil, 1, 3, Contiguous},
	{nil, 3, 5, Transposed},
	{[]int{2}, 3, 4, Mixed},
	{nil, 0, 4, Contiguous},
	{nil, 9, 9, Contiguous},
	{nil, 17, 17, Contiguous},
	{nil, 17, 33, Contiguous},
	{nil, 33, 17, Swapped},
	{nil, 40, 40, Contiguous},
	{[]int{5}, 33, 33, Contiguous},
}

func (b *builder) linalg() {
	id := b.def.ID
	for _, s := range matrices {
		of := func(r, c int) []int { return append(slices.Clone(s.batch), r, c) }
		a := b.in(of(s.m, s.n), s.layout, Dominant)
		switch id {
		case op.QR:
			if s.m >= s.n {
				b.add(nil, of(s.m, s.n), a)
			}
			continue
		case op.SVD:
			b.add(nil, of(1+s.m+s.n, min(s.m, s.n)), a)
			continue
		}
		if s.m != s.n {
			continue
		}
		switch id {
		case op.Cholesky:
			b.add(nil, a.Shape, a)
		case op.Eigh:
			b.add(nil, of(1+s.n, s.n), a)
		case op.Det, op.SlogDet:
			if s.n <= 17 || b.d == dtype.Float64 { // larger determinants overflow
				b.add(nil, append([]int{}, s.batch...), a)
			}
		case op.Cofactor:
			if s.n <= 6 {
				b.add(nil, a.Shape, a)
			}
		case op.Solve, op.SolveTriangular:
			for i, k := range []int{1, 3, 0, 5} {
				if i > 1 && s.n > 4 {
					continue
				}
				layouts := []Layout{Contiguous, Transposed, Contiguous, BroadcastLast}
				if id == op.Solve {
					b.add(nil, of(s.n, k), a, b.in(of(s.n, k), layouts[i], Ordinary))
					continue
				}
				t := op.Triangle{Upper: i%2 == 1, Unit: i > 1}
				b.add(t, of(s.n, k), a, b.in(of(s.n, k), layouts[i], Ordinary))
				if s.n <= 4 {
					t.Upper, t.Unit = !t.Upper, !t.Unit
					b.add(t, of(s.n, k), a, b.in(of(s.n, k), layouts[i], Ordinary))
				}
			}
		}
	}
}

// signals by shape and axis, and how they lie.
var signals = []struct {
	shape  []int
	axis   int
	layout Layout
}{
	{[]int{1}, 0, Contiguous},
	{[]int{2}, 0, Contiguous},
	{[]int{3}, 0, Contiguous},
	{[]int{4}, 0, Offset},
	{[]int{5}, 0, Reversed},
	{[]int{6}, 0, Stepped},
	{[]int{3, 4}, 0, Contiguous},
	{[]int{3, 4}, 1, Contiguous},
	{[]int{3, 5}, 1, Transposed},
	{[]int{5, 3}, 0, Swapped},
	{[]int{2, 3, 4}, 1, Mixed},
	{[]int{2, 6, 3}, 1, BroadcastFirst},
	{[]int{2, 2, 3, 2}, 2, Contiguous},
	{[]int{0, 4}, 1, Contiguous},
	{[]int{16}, 0, Contiguous},
	{[]int{30}, 0, Contiguous},
	{[]int{53}, 0, Contiguous}, // a large prime
	{[]int{2, 106}, 1, Contiguous},
	{[]int{128}, 0, Contiguous},
	{[]int{127}, 0, Contiguous},
	{[]int{300}, 0, Contiguous},
	{[]int{60, 33}, 0, Contiguous},
	{[]int{600, 64}, 1, Contiguous},
}

func (b *builder) fourier() {
	for _, s := range signals {
		if op.Elements(s.shape) >= bigFrom && b.d != dtype.Float32 {
			continue
		}
		half := slices.Clone(s.shape)
		half[s.axis] = s.shape[s.axis]/2 + 1
		pairs := func(shape []int) []int { return append(slices.Clone(shape), 2) }
		switch b.def.ID {
		case op.FFT:
			for _, inverse := range []bool{false, true} {
				b.add(op.Fourier{Axis: s.axis, Inverse: inverse}, pairs(s.shape), b.in(pairs(s.shape), s.layout, Ordinary))
			}
		case op.RFFT:
			b.add(op.Fourier{Axis: s.axis}, pairs(half), b.in(s.shape, s.layout, Ordinary))
		case op.IRFFT:
			b.add(op.Fourier{Axis: s.axis, N: s.shape[s.axis]}, s.shape, b.in(pairs(half), s.layout, Ordinary))
		}
	}
}

func badMatrices(id op.ID) []badShape {
	triangle := op.Attrs(nil)
	switch id {
	case op.SolveTriangular:
		triangle = op.Triangle{}
		fallthrough
	case op.Solve:
		bad := []badShape{
			{"a matrix that is not square", op.ErrShape, triangle, specs([]int{2, 3}, []int{2, 1})},
			{"a vector", op.ErrShape, triangle, specs([]int{3}, []int{3, 2})},
			{"a right side that is a vector", op.ErrShape, triangle, specs([]int{3, 3}, []int{3})},
			{"other rows", op.ErrShape, triangle, specs([]int{3, 3}, []int{2, 3})},
			{"batches differ", op.ErrShape, triangle, specs([]int{2, 3, 3}, []int{3, 3, 3})},
		}
		if id == op.SolveTriangular {
			bad = append(bad, badShape{"no attributes", op.ErrArgument, nil, specs([]int{3, 3}, []int{3, 3})})
		}
		return bad
	case op.QR:
		return []badShape{
			{"a vector", op.ErrShape, nil, specs([]int{3})},
			{"more columns than rows", op.ErrShape, nil, specs([]int{2, 3})},
		}
	case op.SVD:
		return []badShape{{"a vector", op.ErrShape, nil, specs([]int{3})}, {"a scalar", op.ErrShape, nil, specs([]int{})}}
	}
	return []badShape{
		{"a vector", op.ErrShape, nil, specs([]int{3})},
		{"a scalar", op.ErrShape, nil, specs([]int{})},
		{"a matrix that is not square", op.ErrShape, nil, specs([]int{2, 3})},
	}
}

func badSignals(id op.ID) []badShape {
	if id == op.RFFT {
		return []badShape{
			{"an axis that is not there", op.ErrAxis, op.Fourier{Axis: 1}, specs([]int{4})},
			{"an empty axis", op.ErrShape, op.Fourier{}, specs([]int{0})},
			{"attributes of another op", op.ErrArgument, op.Axis{}, specs([]int{4})},
		}
	}
	bad := []badShape{
		{"no pairs", op.ErrShape, op.Fourier{N: 4}, specs([]int{3})},
		{"the axis of the pairs", op.ErrAxis, op.Fourier{Axis: 1, N: 2}, specs([]int{3, 2})},
		{"an empty axis", op.ErrShape, op.Fourier{}, specs([]int{0, 2})},
		{"attributes of another op", op.ErrArgument, op.Axis{}, specs([]int{3, 2})},
	}
	if id == op.IRFFT {
		bad = append(bad, badShape{"another length", op.ErrArgument, op.Fourier{N: 7}, specs([]int{3, 2})},
			badShape{"no length", op.ErrArgument, op.Fourier{}, specs([]int{1, 2})})
	}
	return bad
}
