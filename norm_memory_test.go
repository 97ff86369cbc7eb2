package locus

import (
	"testing"

	"github.com/locusml/locus/internal/layout"
)

// A normalization's graph holds its operand, which is there anyway, its result and
// a few numbers, and its gradient takes the room of one operand more.
func TestNormalizationsHoldLittle(t *testing.T) {
	defer layout.Set(layout.Set(layout.Never)) // without conversions
	for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
		for _, dt := range []DType{Float32, BFloat16} {
			m := d.As(dt)
			x := m.Key(NewKey(1)).Randn(8, 16, 32, 32).RequireGrad()
			w, b := m.Ones(16).RequireGrad(), m.Zeros(16).RequireGrad()
			v, vb := m.Ones(32).RequireGrad(), m.Zeros(32).RequireGrad()
			g := m.Key(NewKey(2)).Randn(8, 16, 32, 32)
			for name, f := range map[string]func() *Tensor{
				"BatchNorm":    func() *Tensor { y, _, _ := BatchNorm(x, w, b, 1e-5); return y },
				"LayerNorm":    func() *Tensor { return LayerNorm(x, []int{32}, v, vb, 1e-5) },
				"RMSNorm":      func() *Tensor { return RMSNorm(x, []int{32}, v, 1e-5) },
				"GroupNorm":    func() *Tensor { return GroupNorm(x, 4, w, b, 1e-5) },
				"InstanceNorm": func() *Tensor { return InstanceNorm(x, w, b, 1e-5) },
			} {
				size := float64(x.Bytes())
				d.ResetPeak()
				before := d.MemoryStats().InUse
				y := f()
				if held := float64(d.MemoryStats().Peak-before) / size; held > 1.3 { // LayerNorm of short rows: 2 of 32 numbers, twice as wide for bfloat16
					t.Errorf("%s: %s of %s takes %.2f times its operand", d, name, dt, held)
				}
				grads := gradFrom([]*Tensor{y}, []*Tensor{g}, []*Tensor{x, w, b, v, vb}, nil, []GradOption{FreeGraph})
				if peak := float64(d.MemoryStats().Peak-before) / size; peak > 2.3 {
					t.Errorf("%s: %s of %s and its gradient take %.2f times its operand", d, name, dt, peak)
				}
				for _, t := range append(grads, y) {
					t.Free()
				}
			}
		}
	}
}

// Of a stack of convolutions, batch normalizations and ReLUs a graph holds their
// results and nothing else, and the gradient passes with two or three more.
func TestMemoryOfAConvolutionalStack(t *testing.T) {
	const layers = 5
	d := AddVirtualGPUs(1, 0)[0]
	x := d.Key(NewKey(1)).Randn(8, 16, 32, 32)
	w := d.Key(NewKey(2)).Randn(16, 16, 3, 3).Mul(0.1).RequireGrad()
	gain, bias := d.Ones(16).RequireGrad(), d.Zeros(16).RequireGrad()
	size := float64(x.Bytes())
	d.ResetPeak()
	before := d.MemoryStats().InUse
	h := x
	for range layers {
		h = Conv2D(h, w, nil, ConvOptions{Padding: 1})
		y, mean, variance := BatchNorm(h, gain, bias, 1e-5)
		if mean.RequiresGrad() || variance.RequiresGrad() {
			t.Error("statistics have a history")
		}
		mean.Free() // the gradient has its own
		variance.Free()
		h = y.Relu()
	}
	loss := h.Mean()
	if held := float64(d.MemoryStats().InUse-before) / size; held > 3*layers*1.05 {
		t.Errorf("%d layers hold %.1f times the images; want %d", layers, held, 3*layers)
	}
	loss.Backward(FreeGraph)
	if peak := float64(d.MemoryStats().Peak-before) / size; peak > 3*layers+4 {
		t.Errorf("the step's peak is %.1f times the images; want at most %d", peak, 3*layers+4)
	}
}
