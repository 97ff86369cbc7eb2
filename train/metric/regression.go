package metric

import (
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
)

// sameShapes refuses outputs that would be broadcast against their targets: (N, 1)
// against (N) is (N, N), which is never what is meant.
func sameShapes(op string, output, target *locus.Tensor) {
	if !slices.Equal(output.Shape(), target.Shape()) {
		fail(locus.ErrShape, op, fmt.Sprintf("the output has shape %v, the target %v", output.Shape(), target.Shape()), "give them one shape with Reshape")
	}
}

// mean is a metric that is computed from a sum over all elements.
type mean struct {
	name   string
	of     func(difference *locus.Tensor) *locus.Tensor
	finish func(mean float64) float64
}

func (m mean) Names() []string { return []string{m.name} }

func (m mean) Update(output, target *locus.Tensor) []*locus.Tensor {
	sameShapes(m.name, output, target)
	d := output.Cast(locus.Float64).Sub(target.Cast(locus.Float64))
	return []*locus.Tensor{m.of(d).Sum(), count(output)}
}

func (m mean) Values(sums [][]float64) []float64 {
	checkSums(m.name, sums, 1, 1)
	return []float64{m.finish(ratio(sums[0][0], sums[1][0]))}
}

// MAE is the mean absolute error over all elements: "mae".
func MAE() Metric {
	return mean{"mae", (*locus.Tensor).Abs, func(m float64) float64 { return m }}
}

// MSE is the mean squared error over all elements: "mse".
func MSE() Metric {
	return mean{"mse", (*locus.Tensor).Square, func(m float64) float64 { return m }}
}

// RMSE is the root of the mean squared error over all elements: "rmse".
func RMSE() Metric { return mean{"rmse", (*locus.Tensor).Square, math.Sqrt} }

type r2 struct{}

// R2 is the coefficient of determination, "r2": 1 for a perfect prediction, 0 for
// the targets' mean. With several outputs per example it is the mean over the
// outputs. As in scikit-learn, where all targets are the same it is 1 if they are
// met and 0 if not, and of fewer than two examples it is not defined.
func R2() Metric { return r2{} }

func (r2) Names() []string { return []string{"r2"} }

func (r2) Update(output, target *locus.Tensor) []*locus.Tensor {
	sameShapes("R2", output, target)
	if output.Rank() == 0 {
		fail(locus.ErrShape, "R2", "the output is one number; want examples along axis 0", "")
	}
	n := output.Dim(0)
	y, want := output.Cast(locus.Float64).Reshape(n, -1), target.Cast(locus.Float64).Reshape(n, -1)
	return []*locus.Tensor{y.Sub(want).Square().Sum(0), want.Sum(0), want.Square().Sum(0), number(y, n)}
}

func (r2) Values(sums [][]float64) []float64 {
	outputs := 0
	if len(sums) > 0 {
		outputs = len(sums[0])
	}
	checkSums("R2", sums, outputs, outputs, outputs, 1)
	n := sums[3][0]
	if n < 2 {
		return []float64{math.NaN()}
	}
	sum := 0.0
	for i, residual := range sums[0] {
		square := sums[2][i]
		spread := square - sums[1][i]*sums[1][i]/n
		if spread <= 1e-14*square { // all the same, but for rounding
			spread = 0
		}
		switch {
		case spread > 0:
			sum += 1 - residual/spread
		case residual == 0:
			sum++
		}
	}
	return []float64{sum / float64(len(sums[0]))}
}

type perplexity struct{ ignore *int }

// Perplexity is e to the mean cross-entropy of scores (N, C, …) with targets
// (N, …): "perplexity". Targets of the number that ignore points to, such as
// new(-100) for padding, do not count; nil ignores none.
func Perplexity(ignore *int) Metric { return perplexity{ignore} }

func (perplexity) Names() []string { return []string{"perplexity"} }

func (p perplexity) Update(output, target *locus.Tensor) []*locus.Tensor {
	l := locus.CrossEntropy(output, target, locus.CrossEntropyOptions{IgnoreIndex: p.ignore, Reduction: locus.ReduceNone})
	n := count(l)
	if p.ignore != nil {
		n = target.Ne(*p.ignore).Cast(locus.Int64).Sum()
	}
	return []*locus.Tensor{l.Cast(locus.Float64).Sum(), n}
}

func (perplexity) Values(sums [][]float64) []float64 {
	checkSums("Perplexity", sums, 1, 1)
	return []float64{math.Exp(ratio(sums[0][0], sums[1][0]))}
}
