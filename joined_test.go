package locus

import (
	"slices"
	"testing"
)

// Gradients of several branches have the same bits whether they are added in place, by a
// normalization's gradient, or as ops of their own, as with CreateGraph; and nothing that
// somebody else has is written over.
func TestGradientsOfBranches(t *testing.T) {
	_, all := devicesOf()
	key := NewKey(9).Split(4)
	for _, d := range all {
		w, b := d.Key(key[0]).Randn(8).RequireGrad(), d.Key(key[1]).Randn(8).RequireGrad()
		norm := func(x *Tensor) *Tensor { return LayerNorm(x, []int{8}, w, b, 1e-5) }
		for name, f := range map[string]func(x *Tensor) *Tensor{
			"a residual":           func(x *Tensor) *Tensor { return x.Add(norm(x).Exp()) },
			"two of them":          func(x *Tensor) *Tensor { h := x.Add(norm(x).Exp()); return h.Add(norm(h).Sin()) },
			"behind the sum":       func(x *Tensor) *Tensor { return norm(x.Add(x.Sin())) },
			"both ways":            func(x *Tensor) *Tensor { return norm(x).Mul(x).Add(norm(x.Mul(2)).Mul(x)) },
			"of one shape":         func(x *Tensor) *Tensor { return x.Add(norm(x)).Add(norm(x)) },
			"without a norm":       func(x *Tensor) *Tensor { return x.Exp().Add(x.Sin()).Add(x.Mul(x)).Add(x) },
			"transposed":           func(x *Tensor) *Tensor { return x.T().Exp().T().Add(norm(x)).Add(x.T().Sin().T()) },
			"the same twice":       func(x *Tensor) *Tensor { return x.Add(x).Add(x.Add(x).Exp()) },
			"an empty sum":         func(x *Tensor) *Tensor { return x.Narrow(0, 0, 0).Add(norm(x.Narrow(0, 0, 0))).Sum().Add(x) },
			"a sum and its norm":   func(x *Tensor) *Tensor { s, n := addNorm(x.Sin(), x.Exp(), []int{8}, w, b, 1e-5); return s.Mul(n) },
			"a norm of two leaves": func(x *Tensor) *Tensor { _, n := addNorm(x, x, []int{8}, w, b, 1e-5); return n.Exp() },
		} {
			run := func(opts ...GradOption) (values []float64) {
				x := d.Key(key[2]).Randn(6, 8).RequireGrad()
				h := x.Mul(1.5) // a gradient that is asked for, and goes on
				y := f(h)
				inputs := []*Tensor{x, h, w, b}
				if slices.Contains(opts, FreeGraph) {
					inputs = []*Tensor{x, w, b}
				}
				for _, in := range inputs {
					if in.node == nil {
						t.Fatal("an input has no node")
					}
				}
				seed := d.Key(key[3]).Randn(6, 8)
				was := bitsOf(seed)
				grads := vjpOf(y, seed, inputs, opts...)
				if slices.Contains(opts, FreeGraph) {
					grads = slices.Insert(grads, 1, nil)
				}
				for _, g := range grads {
					if g != nil {
						values = append(values, bitsOf(g.Detach().Add(0))...)
					}
				}
				if !slices.Equal(bitsOf(seed), was) {
					t.Errorf("%s on %s: the seed has changed", name, d)
				}
				return values
			}
			want := run(CreateGraph)
			for _, opts := range [][]GradOption{nil, {RetainGraph}} {
				if got := run(opts...); !slices.Equal(got, want) {
					t.Errorf("%s on %s, %v: other gradients than with CreateGraph", name, d, opts)
				}
			}
			short := slices.Concat(want[:48], want[96:])
			if got := run(FreeGraph); !slices.Equal(got, short) {
				t.Errorf("%s on %s, with FreeGraph: other gradients than with CreateGraph", name, d)
			}
		}
	}
}

// vjpOf returns the gradients of Σ y·seed.
func vjpOf(y, seed *Tensor, inputs []*Tensor, opts ...GradOption) []*Tensor {
	return gradFrom([]*Tensor{y}, []*Tensor{seed}, inputs, nil, opts)
}

// A residual's gradients are one launch with the normalization's, on a device that has it.
func TestBranchesAreJoined(t *testing.T) {
	d := AddVirtualGPUs(1, 0)[0]
	w, b := d.Ones(8).RequireGrad(), d.Zeros(8).RequireGrad()
	x := d.Key(NewKey(2)).Randn(6, 8).RequireGrad()
	calls := map[string]int{}
	for _, s := range Profile(func() {
		h := x.Mul(1.5)
		s, n := addNorm(h, h.Sin(), []int{8}, w, b, 1e-5)
		Grad([]*Tensor{s.Add(n.Exp()).Square().Sum()}, []*Tensor{x, w, b}, FreeGraph)
	}).Spans {
		calls[s.Name]++
	}
	if calls["add_normalize"] != 1 || calls["normalize_grad_add"] != 1 || calls["normalize"] != 0 || calls["normalize_grad"] != 0 || calls["add"] != 2 {
		t.Errorf("calls: %v", calls)
	}
}

// What no gradient reads any more is freed before the next gradient is computed.
func TestUnreadResultsAreFreed(t *testing.T) {
	d := AddVirtualGPUs(1, 0)[0]
	const n = 1 << 18
	x := d.Ones(n).RequireGrad()
	d.Collect()
	d.ResetPeak()
	before := d.MemoryStats().InUse
	Scoped(func(s *Scope) {
		z := s.Use(x).Mul(2)
		y := z.Gelu()
		Grad([]*Tensor{y.Mul(3).Sum()}, []*Tensor{x}, FreeGraph)
	})
	// z, y and its product; later z, y and its gradient; z, that and z's.
	if got, want := d.MemoryStats().Peak-before, int64(3*4*n+4096); got > want {
		t.Errorf("the peak is %d bytes above the input; want at most %d", got, want)
	}
}

// A residual sum belongs to the scopes of what is added, and not to that of the weight of
// the normalization behind it.
func TestScopeOfSums(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		x, w, b := d.Ones(3, 8), d.Ones(8), d.Zeros(8)
		outer, inner := NewScope(), NewScope()
		for _, c := range []struct {
			x    *Tensor
			want *Scope
		}{{x, nil}, {outer.Use(x), outer}} {
			sum, y := addNorm(c.x, x, []int{8}, inner.Use(w), b, 1e-5)
			if sum.Scope() != c.want || y.Scope() != inner {
				t.Errorf("%s: the results are in other scopes than those of two ops", d)
			}
		}
		inner.Close()
		outer.Close()
	}
}
