package locus_test

import (
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/op"
)

// What a linear map ends with must not depend on whether a gradient is recorded,
// which decides what runs, nor on how it is written.
func TestLinearActivations(t *testing.T) {
	functions := map[locus.Activation]func(*locus.Tensor) *locus.Tensor{
		locus.NoActivation: func(x *locus.Tensor) *locus.Tensor { return x }, locus.ReluActivation: (*locus.Tensor).Relu,
		locus.GeluActivation: (*locus.Tensor).Gelu, locus.GeluTanhActivation: (*locus.Tensor).GeluTanh, locus.SiluActivation: (*locus.Tensor).Silu,
		locus.SigmoidActivation: (*locus.Tensor).Sigmoid, locus.TanhActivation: (*locus.Tensor).Tanh,
		locus.Relu6Activation: (*locus.Tensor).Relu6, locus.HardSigmoidActivation: (*locus.Tensor).HardSigmoid, locus.HardSwishActivation: (*locus.Tensor).HardSwish}
	if len(functions) != len(op.Activations)+1 {
		t.Errorf("%d activations are tried; op.Activations has %d", len(functions)-1, len(op.Activations))
	}
	key := locus.NewKey(7)
	x, w, b := locus.CPU().Key(key).Randn(3, 70, 33), locus.CPU().Key(key.Fold(1)).Randn(40, 33), locus.CPU().Key(key.Fold(2)).Randn(40)
	for a, f := range functions {
		t.Run(a.String(), func(t *testing.T) {
			want := f(locus.Linear(x, w, b))
			inputs := []*locus.Tensor{x.RequireGrad(), w.RequireGrad(), b.RequireGrad()}
			recorded := locus.Linear(inputs[0], inputs[1], inputs[2], a)
			for name, got := range map[string]*locus.Tensor{"plain": locus.Linear(x, w, b, a), "recorded": recorded} {
				if d := got.Sub(want).Abs().Max().Item(); d != 0 {
					t.Errorf("%s: off by %v", name, d)
				}
			}
			composed := f(x.Detach().RequireGrad().MatMul(w.T()).Add(b))
			if d := composed.Sub(want).Abs().Max().Item(); d > 1e-5 {
				t.Errorf("composed: off by %v", d)
			}
			separate := []*locus.Tensor{x.RequireGrad(), w.RequireGrad(), b.RequireGrad()}
			grads := locus.Grad([]*locus.Tensor{recorded}, inputs)
			for i, g := range locus.Grad([]*locus.Tensor{f(separate[0].MatMul(separate[1].T()).Add(separate[2]))}, separate) {
				if d, size := g.Sub(grads[i]).Abs().Max().Item(), g.Abs().Max().Item(); d > 1e-5*size {
					t.Errorf("gradient %d: off by %v of %v", i, d, size)
				}
			}
		})
	}
}

// A layer of an MLP as one op, and as product, sum and activation.
func BenchmarkLinear(b *testing.B) {
	x, w, bias := locus.Randn(256, 784), locus.Randn(256, 784), locus.Randn(256)
	b.Run("one op", func(b *testing.B) {
		for b.Loop() {
			locus.Linear(x, w, bias, locus.ReluActivation).Free()
		}
	})
	b.Run("three ops", func(b *testing.B) {
		for b.Loop() {
			locus.Scoped(func(s *locus.Scope) { s.Use(x).MatMul(w.T()).Add(bias).Relu() })
		}
	})
}
