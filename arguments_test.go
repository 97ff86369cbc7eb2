package locus

import "testing"

// TestDependentArguments checks that functions of several arguments treat them
// as independent, also where one was computed from another or given twice, and
// that gradients of gradients still see how they depend.
func TestDependentArguments(t *testing.T) {
	x := From([]float64{0.5, -1, 2}).RequireGrad()
	k := x.Sin()
	product := func(a ...*Tensor) *Tensor { return a[0].Mul(a[1]).Mul(a[2]).Sum() }

	equal := func(what string, got, want *Tensor) {
		t.Helper()
		if d := got.Sub(want).Abs().Max().Item(); d > 1e-12 {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	want := []*Tensor{x.Mul(k), x.Square(), x.Mul(k)} // of x, k, x in x·k·x

	_, grads := ValueAndGrad(product)(x, k, x)
	for i, g := range grads {
		equal("ValueAndGrad", g, want[i])
	}
	_, vjp := VJP(product, x, k, x)
	for i, g := range vjp(As(Float64).Ones()) {
		equal("VJP", g, want[i])
	}
	// The gradient of x²·sin x, through a checkpoint and with history.
	first := Grad([]*Tensor{Checkpoint(product, x, k, x)}, []*Tensor{x}, CreateGraph)[0]
	equal("Checkpoint", first, x.Mul(k).Mul(2).Add(x.Square().Mul(x.Cos())))
	second := Grad([]*Tensor{first.Sum()}, []*Tensor{x})[0]
	equal("Checkpoint, twice", second, k.Mul(2).Add(x.Mul(x.Cos()).Mul(4)).Sub(x.Square().Mul(k)))

	// Attention differentiates its composition.
	q := As(Float64).Key(NewKey(3)).Randn(3, 2).RequireGrad()
	grad := func(opts ...GradOption) *Tensor {
		return Grad([]*Tensor{Attention(q, q.Sin(), q, AttentionOptions{}).Square().Sum()}, []*Tensor{q}, opts...)[0]
	}
	equal("Attention", grad(CreateGraph), grad())
}
