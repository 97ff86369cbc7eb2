package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

var products = []struct {
	batch   []int
	m, k, n int
	a, b    Layout
}{
	{nil, 1, 1, 1, Contiguous, Contiguous},
	{nil, 2, 3, 4, Contiguous, Contiguous},
	{nil, 2, 3, 4, Transposed, Contiguous},
	{nil, 2, 3, 4, Contiguous, Transposed},
	{nil, 4, 3, 2, Transposed, Transposed},
	{nil, 5, 7, 3, Stepped, Reversed},
	{nil, 5, 7, 3, BroadcastFirst, BroadcastLast},
	{nil, 5, 7, 3, BroadcastAll, Offset},
	{nil, 3, 0, 2, Contiguous, Contiguous}, // an empty sum is zero
	{nil, 0, 3, 2, Contiguous, Contiguous},
	{nil, 2, 3, 0, Contiguous, Contiguous},
	{nil, 1, 9, 1, Contiguous, Contiguous},
	{nil, 9, 1, 9, Contiguous, Contiguous},
	{nil, 1, 33, 65, Contiguous, Contiguous},
	{nil, 65, 33, 1, Contiguous, Contiguous},
	{nil, 1, 33, 65, Contiguous, Transposed},
	{nil, 17, 33, 16, Contiguous, Contiguous},
	{nil, 33, 65, 31, Transposed, Contiguous},
	{nil, 33, 65, 31, Contiguous, Transposed},
	{nil, 31, 300, 47, Transposed, Transposed},
	{nil, 64, 64, 64, Offset, Offset},
	{[]int{3}, 2, 4, 5, Contiguous, Contiguous},
	{[]int{3}, 2, 4, 5, BroadcastFirst, Swapped},
	{[]int{3}, 2, 4, 5, Swapped, BroadcastFirst},
	{[]int{0}, 2, 4, 5, Contiguous, Contiguous},
	{[]int{1}, 7, 9, 6, Mixed, Transposed},
	{[]int{2, 3}, 3, 2, 4, Mixed, Reversed},
	{[]int{2, 3}, 9, 17, 8, Contiguous, Swapped},
	{[]int{40}, 5, 6, 7, Contiguous, Contiguous},
	{nil, 100, 100, 100, Contiguous, Contiguous},
	{nil, 129, 257, 131, Contiguous, Transposed},
	{[]int{4}, 96, 64, 80, Swapped, Contiguous},
}

func (b *builder) matmul() {
	for _, p := range products {
		big := p.m*p.k*p.n >= 1<<18
		if big && b.d != dtype.Float32 && b.d != dtype.BFloat16 {
			continue
		}
		domains := [][2]Domain{{Ordinary, Ordinary}}
		if p.m*p.k*p.n > 100 && !big {
			domains = append(domains, [2]Domain{Gaps, Ordinary}, [2]Domain{Few, Wide})
		}
		of := func(r, c int) []int { return append(slices.Clone(p.batch), r, c) }
		for _, v := range domains {
			b.add(nil, of(p.m, p.n), b.in(of(p.m, p.k), p.a, v[0]), b.in(of(p.k, p.n), p.b, v[1]))
		}
	}
}
