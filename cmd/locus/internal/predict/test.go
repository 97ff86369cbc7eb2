package predict

import (
	"context"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
)

// Class is how a network does on one class.
type Class struct {
	Name     string `json:"class"`
	Examples int    `json:"examples"`
	Right    int    `json:"right"`
	// TakenFor is the class that its examples are mistaken for most often when they
	// are not recognized; Times says how often.
	TakenFor string `json:"taken_for,omitempty"`
	Times    int    `json:"times,omitempty"`
}

// Test is how a network does on a test set.
type Test struct {
	Examples int     `json:"examples"`
	Right    int     `json:"right"`
	Accuracy float64 `json:"accuracy"`
	Loss     float64 `json:"loss"`
	Classes  []Class `json:"classes"`
}

// TestSet measures a network on a dataset.
func TestSet(ctx context.Context, net nn.Module, d locus.Device, set *data.Classified, batch int) (*Test, error) {
	n := len(set.Classes)
	confusion := make([]int, n*n) // the true class, then the guess
	t := &Test{}
	err := outputs(ctx, net, d, set, batch, func(out, y *locus.Tensor) {
		t.Loss += locus.CrossEntropy(out, y, locus.CrossEntropyOptions{Reduction: locus.ReduceSum}).Item()
		guess := locus.ToSlice[int64](out.ArgMax(1))
		for i, c := range locus.ToSlice[int64](y) {
			confusion[int(c)*n+int(guess[i])]++
		}
	})
	if err != nil {
		return nil, err
	}
	t.count(confusion, set.Classes)
	return t, nil
}

// outputs calls f with what the network makes of each batch of a dataset, and with what
// it should be.
func outputs(ctx context.Context, net nn.Module, d locus.Device, set data.Dataset, batch int, f func(out, y *locus.Tensor)) error {
	loader, err := data.NewLoader(set, data.Options{BatchSize: min(batch, set.Len()), Device: d})
	if err != nil {
		return err
	}
	for b, err := range loader.Epoch(0) {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err = locus.Try(func() {
			locus.Scoped(func(s *locus.Scope) {
				x, y := s.Adopt(b.X()), s.Adopt(b.Y())
				locus.NoGrad(func() { f(net.Forward(x), y) })
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Test) count(confusion []int, names []string) {
	n := len(names)
	for i, name := range names {
		c := Class{Name: name, Right: confusion[i*n+i]}
		for j := range n {
			v := confusion[i*n+j]
			c.Examples += v
			if j != i && v > c.Times {
				c.Times, c.TakenFor = v, names[j]
			}
		}
		t.Examples += c.Examples
		t.Right += c.Right
		t.Classes = append(t.Classes, c)
	}
	if t.Examples > 0 {
		t.Accuracy = float64(t.Right) / float64(t.Examples)
		t.Loss /= float64(t.Examples)
	}
}
