package locus_test

import (
	"testing"

	"github.com/locusml/locus"
)

// What one op costs beside its arithmetic.
func BenchmarkSmallAdd(b *testing.B) {
	for _, d := range places() {
		b.Run(d.String(), func(b *testing.B) {
			x, y := d.Ones(2, 3), d.Ones(2, 3)
			b.ReportAllocs()
			for b.Loop() {
				x.Add(y)
			}
			d.Synchronize()
		})
	}
	b.Run("scoped", func(b *testing.B) {
		x, y := locus.Ones(2, 3), locus.Ones(2, 3)
		s := locus.NewScope()
		u := s.Use(x)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			u.Add(y)
			if n++; n%100 == 0 {
				s.Close()
				s = locus.NewScope()
				u = s.Use(x)
			}
		}
	})
	b.Run("recorded", func(b *testing.B) {
		x, y := locus.Ones(2, 3).RequireGrad(), locus.Ones(2, 3)
		b.ReportAllocs()
		for b.Loop() {
			x.Add(y)
		}
	})
}

// Memory-bound work on 16M elements, beside a plain copy of as many bytes.
func BenchmarkLarge(b *testing.B) {
	const n = 16 << 20
	x, y := locus.Rand(n), locus.Rand(n)
	b.Run("copy", func(b *testing.B) {
		src, dst := make([]float32, n), make([]float32, n)
		for i := range src {
			src[i], dst[i] = 1, 1
		}
		b.SetBytes(8 * n)
		for b.Loop() {
			copy(dst, src)
		}
	})
	for name, c := range map[string]struct {
		bytes int64
		f     func() *locus.Tensor
	}{
		"add":  {12 * n, func() *locus.Tensor { return x.Add(y) }},
		"exp":  {8 * n, func() *locus.Tensor { return x.Exp() }},
		"sum":  {4 * n, func() *locus.Tensor { return x.Sum() }},
		"rows": {4 * n, func() *locus.Tensor { return x.Reshape(4096, 4096).Sum(1) }},
		"cols": {4 * n, func() *locus.Tensor { return x.Reshape(4096, 4096).Sum(0) }},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(c.bytes)
			for b.Loop() {
				c.f().Free()
			}
		})
	}
}
