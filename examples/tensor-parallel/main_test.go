package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/nn"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(t.Context(), &b, 3, 20); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "3 ranks") || strings.Count(b.String(), "\n") != 8 {
		t.Error(b.String())
	}
}

// integers are small and exact in float32, so that sums do not depend on their
// order and results can be compared to the bit.
func numbers(key uint64, shape ...int) *locus.Tensor {
	return locus.CPU().Key(locus.NewKey(key)).Randint(-3, 4, shape...).Cast(locus.Float32)
}

// Results and all gradients are those of the single-device layers, to the bit, for
// numbers of units that do and do not divide by the number of ranks, and fewer than
// there are ranks.
func TestEqualsOneDevice(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4} {
		for _, hidden := range []int{3, 8, 13} {
			t.Run(fmt.Sprintf("%d ranks %d units", ranks, hidden), func(t *testing.T) {
				compare(t, ranks, hidden)
			})
		}
	}
}

func compare(t *testing.T, ranks, hidden int) {
	up, down := whole(5, hidden, 4)
	for i, p := range nn.Parameters(nn.Sequential(up, down)) {
		p.Set(numbers(uint64(10+i), p.Value().Shape()...))
	}
	x, pull := numbers(1, 7, 5), numbers(2, 7, 4)
	input := x.RequireGrad()
	y := down.Forward(up.Forward(input).Relu())
	want := locus.GradOf(y.Mul(pull).Sum(), input, up.Weight.Value(), up.Bias.Value(), down.Weight.Value(), down.Bias.Value())
	gpus := locus.AddVirtualGPUs(ranks, 16<<20)
	err := each(gpus, func(g *collective.Group, d locus.Device) error {
		net := &MLP{splitColumns(t.Context(), g, up, d), splitRows(t.Context(), g, down, d)}
		input := x.To(d).RequireGrad()
		out := net.Forward(input)
		grads := locus.GradOf(out.Mul(pull.To(d)).Sum(), input, net.Up.Weight.Value(), net.Up.Bias.Value(), net.Down.Weight.Value(), net.Down.Bias.Value())
		from, to := collective.Part(hidden, g.Rank(), g.Size())
		for i, c := range []struct {
			name string
			want *locus.Tensor
			got  *locus.Tensor
		}{
			{"the result", y, out},
			{"the gradient of the input", want[0], grads[0]},
			{"the gradient of the first weight", want[1].Narrow(0, from, to), grads[1]},
			{"the gradient of the first bias", want[2].Narrow(0, from, to), grads[2]},
			{"the gradient of the second weight", want[3].Narrow(1, from, to), grads[3]},
			{"the gradient of the second bias", want[4], grads[4]},
		} {
			if c.got.Device() != d || !slices.Equal(c.got.Shape(), c.want.Shape()) || !slices.Equal(locus.ToSlice[float32](c.got), locus.ToSlice[float32](c.want)) {
				t.Errorf("rank %d: %s (%d) is %v, want %v", g.Rank(), c.name, i, c.got, c.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Training spread over ranks follows training on one device.
func TestTrainingFollows(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	up, down := whole(64, 31, 10)
	losses := make([][]float64, 2)
	err := each(gpus, func(g *collective.Group, d locus.Device) (err error) {
		losses[g.Rank()], err = fit(&MLP{splitColumns(t.Context(), g, up, d), splitRows(t.Context(), g, down, d)}, d, 30)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := fit(nn.Sequential(up, nn.ReLU(), down), locus.CPU(), 30)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(losses[0], losses[1]) {
		t.Error("the ranks' losses differ")
	}
	for i := range alone {
		if math.Abs(alone[i]-losses[0][i]) > 1e-3 {
			t.Fatalf("step %d: %g and %g", i, alone[i], losses[0][i])
		}
	}
	if alone[29] > 0.9*alone[0] {
		t.Errorf("the loss went from %g to %g", alone[0], alone[29])
	}
}

// A rank that fails ends the others with its reason.
func TestFailure(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 16<<20)
	up, down := whole(4, 4, 4)
	err := each(gpus, func(g *collective.Group, d locus.Device) error {
		net := &MLP{splitColumns(t.Context(), g, up, d), splitRows(t.Context(), g, down, d)}
		if g.Rank() == 1 {
			return fmt.Errorf("no more coffee")
		}
		net.Forward(d.Ones(2, 4))
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "coffee") {
		t.Errorf("the error is %v", err)
	}
}
