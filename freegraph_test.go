package locus

import (
	"errors"
	"testing"
)

// TestFreeGraph checks that gradients with FreeGraph are the same, and that what
// lies between inputs and outputs is freed, and nothing else.
func TestFreeGraph(t *testing.T) {
	for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
		w := d.From([]float32{1, 2, 3, 4, 5, 6}, 2, 3).RequireGrad()
		x := d.From([]float32{1, -1, 2}).RequireGrad()
		run := func(opts ...GradOption) (between, loss *Tensor, grads []*Tensor) {
			h := w.MatMul(x).Exp()
			loss = h.Reshape(2, 1).Mul(h).Sum() // a view of h, and a result that is itself a view
			return h, loss, Grad([]*Tensor{loss}, []*Tensor{w, x}, opts...)
		}
		_, wantLoss, want := run()
		h, loss, got := run(FreeGraph)
		if !h.Freed() {
			t.Errorf("%s: a result between input and output was not freed", d)
		}
		for i, x := range []*Tensor{w, x, loss, got[0], got[1]} {
			if x.Freed() {
				t.Errorf("%s: tensor %d was freed", d, i)
			}
		}
		if loss.Item() != wantLoss.Item() || got[0].Ne(want[0]).Any().Item() != 0 || got[1].Ne(want[1]).Any().Item() != 0 {
			t.Errorf("%s: FreeGraph changes values", d)
		}
		if err := Try(func() { h.Add(1) }); !errors.Is(err, ErrFreed) {
			t.Errorf("%s: using a freed result: %v", d, err)
		}
		h = w.MatMul(x)
		h.Square().Sum().Backward(FreeGraph)
		if !h.Freed() || w.Grad() == nil || w.Grad().Freed() || x.Freed() {
			t.Errorf("%s: Backward freed the wrong tensors", d)
		}
	}
	y := Ones(2).RequireGrad().Sum()
	if err := Try(func() { y.Backward(FreeGraph, RetainGraph) }); !errors.Is(err, ErrArgument) {
		t.Errorf("contradicting options: %v", err)
	}
}
