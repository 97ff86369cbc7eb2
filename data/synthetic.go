package data

import (
	"fmt"

	"github.com/locusml/locus"
)

// SyntheticRegression makes n examples of a linear model with noise, on the CPU:
// x is drawn from the standard normal distribution, and
//
//	y = x·w + b + noise·ε
//
// with ε likewise. x has shape (n, len(w)), y (n, 1), both float32.
func SyntheticRegression(key locus.Key, n int, w []float32, b, noise float64) (*TensorDataset, error) {
	if n < 1 || len(w) == 0 {
		return nil, fmt.Errorf("data: cannot make %d examples with %d weights: %w", n, len(w), locus.ErrArgument)
	}
	var x, y *locus.Tensor
	err := locus.Try(func() {
		keys := key.Split(2)
		x = locus.CPU().Key(keys[0]).Randn(n, len(w))
		y = x.MatMul(locus.CPU().From(w, len(w), 1)).Add(b).Add(locus.CPU().Key(keys[1]).Randn(n, 1).Mul(noise))
	})
	if err != nil {
		return nil, err
	}
	return NewTensorDataset(x, y)
}
