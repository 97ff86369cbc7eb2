package locus

import (
	"slices"
	"testing"
)

// The gradient of a tensor that is cut into parts is that of parts padded and added,
// whether the parts cover it, overlap, leave holes, or get no gradient.
func TestGradientsOfParts(t *testing.T) {
	_, all := devicesOf()
	for name, cut := range map[string]func(x *Tensor) *Tensor{
		"three parts": func(x *Tensor) *Tensor {
			p := x.Chunk(3, 1)
			return p[0].Mul(p[1]).Add(p[2].Exp()).Sum()
		},
		"three parts, out of order": func(x *Tensor) *Tensor {
			return x.Narrow(1, 4, 6).Square().Sum().Add(x.Narrow(1, 0, 3).Exp().Sum()).Add(x.Narrow(1, 3, 4).Sin().Sum())
		},
		"an empty part, last": func(x *Tensor) *Tensor {
			return x.Narrow(1, 3, 6).Sin().Sum().Add(x.Narrow(1, 0, 3).Exp().Sum()).Add(x.Narrow(1, 0, 0).Exp().Sum())
		},
		"more chunks than columns": func(x *Tensor) *Tensor {
			p := x.T().Narrow(0, 0, 2).Chunk(3, 0)
			return p[0].Exp().Sum().Add(p[1].Sin().Sum()).Add(p[2].Sum())
		},
		"an empty part": func(x *Tensor) *Tensor {
			return x.Narrow(1, 0, 0).Exp().Sum().Add(x.Narrow(1, 0, 3).Exp().Sum()).Add(x.Narrow(1, 3, 6).Sin().Sum())
		},
		"empty at the end": func(x *Tensor) *Tensor {
			return x.Narrow(1, 6, 6).Exp().Sum().Add(x.Narrow(1, 0, 3).Exp().Sum()).Add(x.Narrow(1, 3, 6).Sin().Sum())
		},
		"the same gradient": func(x *Tensor) *Tensor {
			p := x.Chunk(6, 1)
			return p[0].Add(p[1]).Add(p[2]).Add(p[3]).Add(p[4]).Add(p[5]).Exp().Sum()
		},
		"a hole":        func(x *Tensor) *Tensor { return x.Narrow(1, 0, 2).Mul(x.Narrow(1, 4, 6)).Sum() },
		"an overlap":    func(x *Tensor) *Tensor { return x.Narrow(1, 0, 4).Mul(x.Narrow(1, 2, 6)).Sum() },
		"two axes":      func(x *Tensor) *Tensor { return x.Narrow(0, 0, 2).Exp().Sum().Add(x.Narrow(1, 2, 6).Square().Sum()) },
		"and the whole": func(x *Tensor) *Tensor { return x.Narrow(1, 0, 3).Mul(x.Narrow(1, 3, 6)).Sum().Add(x.Exp().Sum()) },
		"one without":   func(x *Tensor) *Tensor { return x.Narrow(1, 0, 3).Exp().Sum().Add(x.Narrow(1, 3, 6).Detach().Sum()) },
		"one not used":  func(x *Tensor) *Tensor { p := x.Chunk(2, 1); _ = p[1].Exp(); return p[0].Exp().Sum() },
		"steps":         func(x *Tensor) *Tensor { return x.Slice(All(), R(0, 6, 2)).Mul(x.Narrow(1, 0, 3)).Sum() },
		"parts of parts": func(x *Tensor) *Tensor {
			a, b := x.Chunk(2, 1)[0], x.Chunk(2, 1)[1]
			c := a.Chunk(3, 1)
			return c[0].Mul(c[1]).Mul(c[2]).Sum().Add(b.Square().Sum())
		},
		"one part is twice": func(x *Tensor) *Tensor { a, b := x.Narrow(1, 0, 3), x.Narrow(1, 3, 6); return a.Mul(a).Mul(b).Sum() },
	} {
		for _, d := range all {
			for _, leaf := range []bool{true, false} {
				run := func(opts ...GradOption) []float64 {
					x := d.Key(NewKey(4)).Randn(3, 6).RequireGrad()
					y := x
					if !leaf {
						y = x.Mul(1.5)
					}
					return bitsOf(Grad([]*Tensor{cut(y)}, []*Tensor{x}, opts...)[0].Add(0))
				}
				want := run(CreateGraph)
				for k, opts := range [][]GradOption{nil, {FreeGraph}, {RetainGraph}} {
					if got := run(opts...); !slices.Equal(got, want) {
						t.Errorf("%s on %s, leaf %v, %d: %v, want %v", name, d, leaf, k, got, want)
					}
				}
			}
		}
	}
}
