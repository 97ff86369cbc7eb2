package locus_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Training gives the same bits whatever the number of threads: products,
// convolutions, pooling, norms, attention, losses and optimizers together.
func TestTrainingDoesNotDependOnThreads(t *testing.T) {
	defer pool.SetThreads(pool.SetThreads(0))
	images := func(batch, channels, side int) []int { return []int{batch, channels, side, side} }
	for _, c := range []struct {
		name  string
		shape []int
		build func() nn.Module
	}{
		{"mlp", []int{100, 300}, func() nn.Module {
			return nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 10))
		}},
		{"lenet", images(16, 1, 28), func() nn.Module {
			return nn.Sequential(nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), nn.AvgPool2D(2, locus.PoolOptions{}),
				nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.Tanh(), nn.MaxPool2D(2, locus.PoolOptions{}), nn.Flatten(), nn.Linear(400, 10))
		}},
		{"normed", images(8, 16, 12), func() nn.Module {
			return nn.Sequential(nn.Conv2D(16, 16, 3, locus.ConvOptions{Padding: 1}), nn.BatchNorm(16), nn.GELU(), nn.Flatten(),
				nn.LayerNorm(16*12*12), nn.Linear(16*12*12, 10))
		}},
		{"transformer", []int{4, 40, 32}, func() nn.Module {
			return nn.Sequential(nn.TransformerEncoderLayer(32, 4, nn.TransformerOptions{Hidden: 64}), nn.Flatten(), nn.Linear(40*32, 10))
		}},
	} {
		var first []byte
		for _, threads := range []int{1, 2, 3, 7} {
			pool.SetThreads(threads)
			locus.Seed(7)
			net := c.build()
			x, y := locus.Randn(c.shape...), locus.Randint(0, 10, c.shape[0])
			o := optim.Adam(nn.Parameters(net), 0.01, optim.AdamOptions{})
			for range 2 {
				locus.Scoped(func(s *locus.Scope) {
					loss := locus.CrossEntropy(net.Forward(s.Use(x)), y, locus.CrossEntropyOptions{})
					o.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(o.Params())))
				})
			}
			var got bytes.Buffer
			for _, p := range o.Params() {
				fmt.Fprint(&got, p.Name, locus.ToSlice[float32](p.Value()))
			}
			if first == nil {
				first = got.Bytes()
			} else if !bytes.Equal(first, got.Bytes()) {
				t.Errorf("%s: %d threads give other parameters than 1", c.name, threads)
			}
		}
	}
}
