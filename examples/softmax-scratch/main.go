// Command softmax-scratch trains softmax regression on the embedded digits with
// nothing but tensors: its own softmax, loss, accuracy and update.
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

// model is one linear layer from pixels to classes.
type model struct{ weight, bias *locus.Tensor }

func (m model) probabilities(x *locus.Tensor) *locus.Tensor {
	return softmax(x.FlattenFrom(1).MatMul(m.weight).Add(m.bias))
}

// softmax makes each row positive and gives it the sum 1. Subtracting the largest
// score changes nothing but keeps e^x from overflowing.
func softmax(scores *locus.Tensor) *locus.Tensor {
	e := scores.Sub(scores.MaxKeep(1)).Exp()
	return e.Div(e.SumKeep(1))
}

// crossEntropy is the mean of -log p of what was right.
func crossEntropy(p, labels *locus.Tensor) *locus.Tensor {
	return p.Gather(1, labels.Unsqueeze(1)).Log().Mean().Neg()
}

// hits is the number of rows whose largest probability is the label's.
func hits(p, labels *locus.Tensor) *locus.Tensor {
	return p.ArgMax(1).Eq(labels).Cast(locus.Float32).Sum()
}

func run(w io.Writer, device locus.Device) error {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return err
	}
	loader, err := data.NewLoader(learn, data.Options{BatchSize: 64, Shuffle: true, Key: locus.NewKey(1), Device: device})
	if err != nil {
		return err
	}

	m := model{weight: device.Zeros(8*8, 10), bias: device.Zeros(10)}
	for epoch := range 10 {
		for batch, err := range loader.Epoch(epoch) {
			if err != nil {
				return err
			}
			m.step(batch, 0.5)
		}
		accuracy, err := m.accuracy(test, device)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "epoch %2d  accuracy %.3f\n", epoch+1, accuracy)
	}
	return nil
}

// step moves the parameters against the gradient of a batch's loss.
func (m *model) step(batch *data.Batch, learningRate float64) {
	// What is computed from the batch is freed at the end of the scope, so that a
	// loop holds no more memory than one step needs. Only the parameters are kept.
	locus.Scoped(func(s *locus.Scope) {
		x, y := s.Adopt(batch.X()), s.Adopt(batch.Y())
		_, grads := locus.ValueAndGrad(func(p ...*locus.Tensor) *locus.Tensor {
			return crossEntropy(model{p[0], p[1]}.probabilities(x), y)
		})(m.weight, m.bias)
		m.weight = s.Keep(m.weight.Sub(grads[0].Mul(learningRate)))
		m.bias = s.Keep(m.bias.Sub(grads[1].Mul(learningRate)))
	})
}

// accuracy is the part of a set that the model gets right, counted on the device.
func (m *model) accuracy(set data.Dataset, device locus.Device) (float64, error) {
	loader, err := data.NewLoader(set, data.Options{BatchSize: 128, Device: device})
	if err != nil {
		return 0, err
	}
	right := device.Zeros()
	for batch, err := range loader.Epoch(0) {
		if err != nil {
			return 0, err
		}
		right = right.Add(hits(m.probabilities(batch.X()), batch.Y()))
	}
	return right.Item() / float64(set.Len()), nil
}
