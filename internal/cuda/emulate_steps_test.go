//go:build linux && amd64 && !nocuda

package cuda_test

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/internal/layout"
)

// Convolutions with biases and activations, and their gradients of both orders, are those
// of the CPU.
func TestEmulatedConvolutions(t *testing.T) {
	launched := cuda.UseFake(t, cuda.Emulation(t, "conv", "conv_weight", "bias", "reduce", "unary", "binary", "create", "index", "depthwise_pixels"))
	for _, last := range []bool{false, true} { // images channels last, which filters per channel have kernels for
		how, in, groups := layout.Never, 2, 1
		if last {
			how, in, groups = layout.Always, 1, 5
		}
		defer layout.Set(layout.Set(how))
		checkConvolutions(t, launched, in, groups)
	}
}

func checkConvolutions(t *testing.T, launched func() []string, in, groups int) {
	gpu, cpu := locus.GPU(), locus.CPU()
	for _, act := range []locus.Activation{locus.NoActivation, locus.SigmoidActivation, locus.ReluActivation, locus.GeluActivation} {
		run := func(d locus.Device, second bool) (results []*locus.Tensor) {
			k := locus.NewKey(5).Split(4)
			at := func(i int, shape ...int) *locus.Tensor { return cpu.Key(k[i]).Randn(shape...).To(d).RequireGrad() }
			x, w, b := at(0, 3, in*groups, 9, 8), at(1, 5, in, 3, 3), at(2, 5)
			y := locus.Conv2D(x, w, b, locus.ConvOptions{Padding: 1, Groups: groups}, act)
			loss := y.Mul(at(3, 3, 5, 9, 8).Detach()).Sum()
			of := []*locus.Tensor{x, w, b}
			if !second {
				return append(locus.Grad([]*locus.Tensor{loss}, of), y.Detach())
			}
			g := locus.Grad([]*locus.Tensor{loss}, of, locus.CreateGraph)
			return locus.Grad([]*locus.Tensor{g[0].Mul(g[0]).Sum().Add(g[2].Mul(g[2]).Sum())}, of)
		}
		for _, second := range []bool{false, true} {
			launched()
			got := run(gpu, second)
			joined := 0
			for _, name := range launched() {
				if strings.HasPrefix(name, "bias_act_") || strings.Contains(name, "_grad_sum_") {
					joined++
				}
			}
			if !second && joined != 2 && act != locus.NoActivation {
				t.Errorf("%v, %d groups: %d launches of two ops, want 2", act, groups, joined)
			}
			for i, want := range run(cpu, second) {
				if !got[i].To(cpu).AllClose(want, 1e-4, 1e-4) {
					t.Errorf("%v, %d groups, second order %v: result %d differs", act, groups, second, i)
				}
			}
		}
	}
}
