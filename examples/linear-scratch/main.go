// Command linear-scratch learns a linear model with nothing but tensors and their
// gradients: no layers, no optimizer, no trainer.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

func main() {
	if err := run(os.Stdout, locus.TryGPU()); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, device locus.Device) error {
	// y = 2·x₀ - 3.4·x₁ + 4.2, and some noise.
	set, err := data.SyntheticRegression(locus.NewKey(1), 1000, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		return err
	}
	// The loader copies batches to the device while the one before is in use.
	loader, err := data.NewLoader(set, data.Options{BatchSize: 32, Shuffle: true, Key: locus.NewKey(2), Device: device})
	if err != nil {
		return err
	}

	// The parameters live where the data goes.
	weight := device.Key(locus.NewKey(3)).Randn(2, 1).Mul(0.01)
	bias := device.Zeros(1)

	const learningRate = 0.1
	for epoch := range 5 {
		total := device.Zeros() // adds losses up on the device
		for batch, err := range loader.Epoch(epoch) {
			if err != nil {
				return err
			}
			x, y := batch.X(), batch.Y()
			loss, grads := locus.ValueAndGrad(func(p ...*locus.Tensor) *locus.Tensor {
				return squaredLoss(linear(x, p[0], p[1]), y)
			})(weight, bias)

			// Tensors never change: a step makes new ones.
			weight = weight.Sub(grads[0].Mul(learningRate))
			bias = bias.Sub(grads[1].Mul(learningRate))
			total = total.Add(loss)
		}
		// The one number that is read from the device, once per epoch.
		fmt.Fprintf(w, "epoch %d  loss %.6f\n", epoch+1, total.Item()/float64(loader.Len()))
	}
	fmt.Fprintln(w, "weight", weight.Flatten())
	fmt.Fprintln(w, "bias  ", bias)
	return nil
}

func linear(x, weight, bias *locus.Tensor) *locus.Tensor { return x.MatMul(weight).Add(bias) }

func squaredLoss(got, want *locus.Tensor) *locus.Tensor {
	return got.Sub(want).Square().Mul(0.5).Mean()
}
