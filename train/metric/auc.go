package metric

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// twoClasses returns the scores of class 1, a float vector, and the targets, an
// int64 one.
func twoClasses(op string, output, target *locus.Tensor) (score, want *locus.Tensor) {
	switch {
	case single(output):
		score = output.Flatten()
		if score.DType() != locus.Float64 {
			score = score.Cast(locus.Float32)
		}
	case output.Rank() == 2 && output.Dim(1) == 2:
		score = output.Cast(locus.Float64).Narrow(1, 1, 2).Sub(output.Cast(locus.Float64).Narrow(1, 0, 1)).Flatten()
	default:
		fail(locus.ErrShape, op, fmt.Sprintf("scores of shape %v; want (N), (N, 1) or (N, 2)", output.Shape()), "")
	}
	want = target.Flatten()
	checkCount(op, output, target, want.Len() == score.Len() && target.Rank() > 0 && target.Len() == target.Dim(0))
	return score, want.Cast(locus.Int64)
}

type auc struct{ bins int }

// AUC is the area under the ROC curve of two classes, "auc": the probability that an
// example of class 1 has a higher score than one of class 0. Scores are (N) or (N,
// 1), logits or any others that rise with class 1, or (N, 2), of which the
// difference counts; targets are 0 and 1. It is not defined while one of the classes
// has no example.
//
// Scores are counted in bins, 0 meaning 65,536 of them; the memory is 16 bytes per
// bin on each device, 1 MiB by default, however many examples there are. Scores of
// one bin count as equal, so the result is exact if no bin has examples of both
// classes, and off by at most half the fraction of pairs that share a bin. Bins are
// narrow around 0 and wide far from it: with B of them a bin at score z has width
// (1+|z|)²·2/B. Logits are therefore better than their probabilities. [ExactAUC] has
// no bins.
func AUC(bins int) Metric {
	if bins == 0 {
		bins = 1 << 16
	}
	gate.Check("metric.AUC", gate.Count("the number of bins", bins, 2, 1<<24))
	return auc{bins}
}

func (auc) Names() []string { return []string{"auc"} }

func (a auc) Update(output, target *locus.Tensor) []*locus.Tensor {
	score, want := twoClasses("AUC", output, target)
	// x/(1+|x|) keeps the order of all numbers within -1 and 1.
	z := score.Cast(locus.Float64).Clamp(-1e15, 1e15).Softsign()
	bin := z.Add(1).Mul(float64(a.bins)/2).Floor().Clamp(0, float64(a.bins-1)).Cast(locus.Int64)
	// A row for each class: another class than 0 and 1 is an ErrIndex.
	known := want.Eq(0).Or(want.Eq(1))
	at := known.Where(want.Mul(a.bins).Add(bin), 2*a.bins)
	return []*locus.Tensor{zeros(bin, 2*a.bins).IndexAdd(0, at, bin.OnesLike())}
}

func (a auc) Values(sums [][]float64) []float64 {
	checkSums("AUC", sums, 2*a.bins)
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

type exactAUC struct{}

// ExactAUC is [AUC] without bins: scores that differ at all count as different, and
// the result is scikit-learn's. It keeps every score, so its memory is 5 bytes per
// example on each device (9 where scores are float64, or differences of two), and
// reading it sorts them on the host. A score that is NaN makes it NaN.
func ExactAUC() Collector { return exactAUC{} }

func (exactAUC) Names() []string { return []string{"auc"} }

func (exactAUC) BytesPerExample() int { return 5 }

func (exactAUC) Update(output, target *locus.Tensor) []*locus.Tensor {
	score, want := twoClasses("ExactAUC", output, target)
	known := want.Eq(0).Or(want.Eq(1))
	return []*locus.Tensor{score, known.Where(want, 2).Cast(locus.Uint8)}
}

func (exactAUC) Values(all [][]float64) []float64 {
	examples := 0
	if len(all) > 0 {
		examples = len(all[0])
	}
	checkSums("ExactAUC", all, examples, examples)
	scores, classes := all[0], all[1]
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
		if math.IsNaN(scores[i]) {
			return []float64{math.NaN()}
		}
		if classes[i] > 1 {
			fail(locus.ErrIndex, "ExactAUC", "a target is neither 0 nor 1", "")
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	below, won, positives := 0.0, 0.0, 0.0 // negatives with lower scores; pairs in the right order
	for from := 0; from < len(order); {
		to, p, n := from, 0.0, 0.0
		for ; to < len(order) && scores[order[to]] == scores[order[from]]; to++ {
			p += classes[order[to]]
			n += 1 - classes[order[to]]
		}
		won += p * (below + n/2)
		below, positives, from = below+n, positives+p, to
	}
	if below*positives == 0 {
		return []float64{math.NaN()}
	}
	return []float64{won / (below * positives)}
}
