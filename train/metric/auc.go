package metric

import (
	"fmt"
	"math"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

type auc struct{ bins int }

// AUC is the area under the ROC curve of two classes, "auc": how likely an example
// of class 1 has a higher score than one of class 0. Scores are (N) or (N, 1),
// logits or any others that rise with class 1, or (N, 2), of which the difference
// counts; targets are 0 and 1. It is not defined while one of the classes has no
// example.
//
// Scores are counted in bins, 0 meaning 65,536 of them; the memory is 16 bytes per
// bin on each device, 1 MiB by default, however many examples there are. Scores of
// one bin count as equal, so the result is exact if no bin has examples of both
// classes, and off by at most half the part of pairs that share a bin. Bins are
// narrow around 0 and wide far from it: with B of them a bin at score z has width
// (1+|z|)²·2/B. Logits are therefore better than their probabilities.
func AUC(bins int) Metric {
	if bins == 0 {
		bins = 1 << 16
	}
	gate.Check("metric.AUC", gate.Count("the number of bins", bins, 2, 1<<24))
	return auc{bins}
}

func (auc) Names() []string { return []string{"auc"} }

func (a auc) Update(output, target *locus.Tensor) []*locus.Tensor {
	score := output
	switch {
	case single(output):
		score = output.Flatten()
	case output.Rank() == 2 && output.Dim(1) == 2:
		score = output.Cast(locus.Float64).Narrow(1, 1, 2).Sub(output.Cast(locus.Float64).Narrow(1, 0, 1)).Flatten()
	default:
		fail(locus.ErrShape, "AUC", fmt.Sprintf("scores of shape %v; want (N), (N, 1) or (N, 2)", output.Shape()), "")
	}
	want := target.Flatten()
	checkCount("AUC", output, target, want.Len() == score.Len() && target.Len() == target.Dim(0))
	want = want.Cast(locus.Int64)
	// x/(1+|x|) keeps the order of all numbers within -1 and 1.
	z := score.Cast(locus.Float64).Clamp(-1e15, 1e15).Softsign()
	bin := z.Add(1).Mul(float64(a.bins)/2).Floor().Clamp(0, float64(a.bins-1)).Cast(locus.Int64)
	// A row for each class: another class than 0 and 1 is an ErrIndex.
	known := want.Eq(0).Or(want.Eq(1))
	at := known.Where(want.Mul(a.bins).Add(bin), 2*a.bins)
	return []*locus.Tensor{zeros(bin, 2*a.bins).IndexAdd(0, at, bin.OnesLike())}
}

func (a auc) Values(sums [][]float64) []float64 {
	negative, positive := sums[0][:a.bins], sums[0][a.bins:]
	below, won := 0.0, 0.0 // negatives in lower bins; pairs in the right order
	for i, p := range positive {
		won += p * (below + negative[i]/2)
		below += negative[i]
	}
	pairs := below * total(positive)
	if pairs == 0 {
		return []float64{math.NaN()}
	}
	return []float64{won / pairs}
}
