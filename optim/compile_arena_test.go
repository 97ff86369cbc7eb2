package optim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func leNet() nn.Module {
	pool := nn.AvgPool2D(2, locus.PoolOptions{})
	return nn.Sequential(nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), pool, nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.Sigmoid(), pool,
		nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))
}

func resNet18() nn.Module {
	layers := []nn.Module{nn.Conv2D(3, 64, 7, locus.ConvOptions{Stride: 2, Padding: 3}, nn.NoBias()), nn.BatchNorm(64), nn.ReLU(), nn.MaxPool2D(3, locus.PoolOptions{Stride: 2, Padding: 1})}
	for in, i := 64, 0; i < 4; i++ {
		out, stride := 64<<i, 2
		if i == 0 {
			stride = 1
		}
		layers = append(layers, nn.ResNetBlock(in, out, stride), nn.ResNetBlock(out, out, 1))
		in = out
	}
	return nn.Sequential(append(layers, nn.GlobalAvgPool(), nn.Linear(512, 10))...)
}

func transformer6() nn.Module {
	return nn.Sequential(nn.TransformerEncoder(6, 512, 8, nn.TransformerOptions{Hidden: 2048, PreNorm: true, Activation: locus.GeluActivation}), nn.Linear(512, 1000))
}

// TestPlannedArenas computes what steps of larger networks need, by their plans: on a
// device without room for them a step is traced and planned, and then fails. Wanted is
// no more than PyTorch needs.
func TestPlannedArenas(t *testing.T) {
	for _, c := range []struct {
		name         string
		net          func() nn.Module
		room         int64 // for parameters and the batch
		batch        []int
		classes      int64
		labels       int
		slots        int // what the optimizer remembers of each parameter
		most         int // MiB
		perParameter func(p []nn.Entry) *Optimizer
	}{
		{"LeNet", leNet, 1 << 20, []int{128, 1, 28, 28}, 10, 128, 0, 8, func(p []nn.Entry) *Optimizer { return SGD(p, 0.1, SGDOptions{}) }},
		{"ResNet-18", resNet18, 100 << 20, []int{128, 3, 96, 96}, 10, 128, 0, 617, func(p []nn.Entry) *Optimizer { return SGD(p, 0.1, SGDOptions{}) }},
		{"transformer", transformer6, 100 << 20, []int{8, 256, 512}, 1000, 8 * 256, 2, 681, func(p []nn.Entry) *Optimizer { return AdamW(p, 1e-4, AdamOptions{}) }},
	} {
		d := locus.AddVirtualGPUs(1, c.room)[0]
		m := nn.To(c.net(), d)
		o := c.perParameter(nn.Parameters(m))
		step := locus.Compile(byBackward(o, func(x, y *locus.Tensor) *locus.Tensor {
			out := m.Forward(x)
			return locus.CrossEntropy(out.Reshape(-1, out.Dim(-1)), y, locus.CrossEntropyOptions{})
		}))
		x, y := d.Zeros(c.batch...), d.Zeros(c.labels).Cast(locus.Int64)
		if err := locus.Try(func() { step.Call(x, y) }); !errors.Is(err, locus.ErrOutOfMemory) {
			t.Fatalf("%s: %v", c.name, err)
		}
		bytes := x.Bytes() + y.Bytes()
		for _, e := range nn.State(m) {
			n := 1
			if e.Kind == nn.Trained {
				n += c.slots
			}
			bytes += n * e.Value().Bytes()
		}
		_, line, _ := strings.Cut(step.Explain(), "an arena of ")
		var arena int
		if _, err := fmt.Sscan(line, &arena); err != nil {
			t.Fatal(err)
		}
		mib := float64(arena+bytes) / (1 << 20)
		t.Logf("%s: %.1f MiB, %.1f of them the arena", c.name, mib, float64(arena)/(1<<20))
		if mib > float64(c.most) {
			t.Errorf("%s: %.1f MiB are planned; want at most %d", c.name, mib, c.most)
		}
	}
}
