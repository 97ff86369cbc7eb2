package metric

import (
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// Metrics of classes take scores (N, C, …), one per class, of which the largest is
// the prediction, and targets (N, …), the numbers of the classes. A single score,
// (N) or (N, 1), is a logit: above 0 it predicts class 1, else class 0. Targets
// that have the shape of the scores are probabilities of the classes; the largest
// counts.

// predicted returns the predictions and the targets as int64 vectors.
func predicted(op string, output, target *locus.Tensor) (got, want *locus.Tensor) {
	if output.Rank() == 0 {
		fail(locus.ErrShape, op, "the output is one number; want scores (N, C)", "")
	}
	if single(output) {
		got, want = output.Flatten().Gt(0).Cast(locus.Int64), target
		if want.Rank() > 1 && want.Len() == want.Dim(0) {
			want = want.Flatten()
		}
		checkCount(op, output, target, want.Rank() == 1 && want.Len() == got.Len())
		return got, want.Cast(locus.Int64)
	}
	got, want = output.ArgMax(1), target
	if slices.Equal(target.Shape(), output.Shape()) && target.DType().IsFloat() {
		want = target.ArgMax(1)
	}
	checkCount(op, output, target, slices.Equal(got.Shape(), want.Shape()))
	return got.Flatten(), want.Cast(locus.Int64).Flatten()
}

// single reports whether there is one score per example.
func single(output *locus.Tensor) bool {
	return output.Rank() == 1 || output.Rank() == 2 && output.Dim(1) == 1
}

func checkCount(op string, output, target *locus.Tensor, ok bool) {
	if !ok {
		fail(locus.ErrShape, op, fmt.Sprintf("targets of shape %v for scores of shape %v", target.Shape(), output.Shape()),
			"scores are (N, C, …), targets (N, …) with the number of the class")
	}
}

// count is the number of t's elements as a statistic, on t's device.
func count(t *locus.Tensor) *locus.Tensor { return number(t, t.Len()) }

// number is n as a statistic, on t's device and in its scope.
func number(t *locus.Tensor, n int) *locus.Tensor { return zeros(t).Add(n) }

// zeros makes counters on t's device, in its scope.
func zeros(t *locus.Tensor, shape ...int) *locus.Tensor {
	z := t.Device().As(locus.Int64).Zeros(shape...)
	if s := t.Scope(); s != nil {
		s.Adopt(z)
	}
	return z
}

type accuracy struct{ k int }

// Accuracy is the fraction of examples whose prediction is right: "accuracy".
func Accuracy() Metric { return accuracy{1} }

// TopK is the fraction of examples whose class is among the k largest scores:
// "top_5_accuracy" for k = 5.
func TopK(k int) Metric {
	gate.Check("metric.TopK", gate.Count("k", k, 1, math.MaxInt32))
	return accuracy{k}
}

func (a accuracy) Names() []string {
	if a.k == 1 {
		return []string{"accuracy"}
	}
	return []string{fmt.Sprintf("top_%d_accuracy", a.k)}
}

func (a accuracy) Update(output, target *locus.Tensor) []*locus.Tensor {
	if a.k == 1 {
		got, want := predicted("Accuracy", output, target)
		return []*locus.Tensor{got.Eq(want).Cast(locus.Int64).Sum(), count(got)}
	}
	if output.Rank() < 2 || output.Dim(1) < a.k {
		fail(locus.ErrShape, "TopK", fmt.Sprintf("scores of shape %v for the best %d classes", output.Shape(), a.k), "scores are (N, C, …), with at least as many classes")
	}
	_, best := output.TopK(a.k, 1)
	_, want := predicted("TopK", output, target)
	if output.Rank() > 2 {
		best = best.MoveAxis(1, -1)
	}
	best = best.Reshape(-1, a.k)
	return []*locus.Tensor{best.Eq(want.Unsqueeze(1)).Any(1).Cast(locus.Int64).Sum(), count(want)}
}

func (a accuracy) Values(sums [][]float64) []float64 {
	checkSums("Accuracy", sums, 1, 1)
	return []float64{ratio(sums[0][0], sums[1][0])}
}

// Average says how numbers of several classes become one.
type Average uint8

// The averages. As in scikit-learn, a class that is neither among the targets nor
// among the predictions does not count, and 0/0 is 0.
const (
	Macro    Average = iota + 1 // the mean over the classes
	Micro                       // over all examples, whatever their class
	Weighted                    // the mean over the classes, weighted by their number of examples
	Binary                      // of class 1, of two
)

// String returns the average's name.
func (a Average) String() string {
	if a >= Macro && a <= Binary {
		return [...]string{"Macro", "Micro", "Weighted", "Binary"}[a-1]
	}
	return fmt.Sprintf("Average(%d)", uint8(a))
}

func (a Average) check(op string, classes int) {
	if a < Macro || a > Binary {
		fail(locus.ErrArgument, op, "the average is "+a.String(), "use metric.Macro, Micro, Weighted or Binary")
	}
	if a == Binary && classes != 2 {
		fail(locus.ErrArgument, op, fmt.Sprintf("the average Binary of %d classes", classes), "use it with 2, or another average")
	}
}

// perClass is precision, recall or F1.
type perClass struct {
	classes int
	average Average
	which   []string
}

// maxClasses is more than any network tells apart.
const maxClasses = 1 << 24

func newPerClass(op string, classes int, average Average, which ...string) Metric {
	gate.Check("metric."+op, gate.Count("the number of classes", classes, 2, maxClasses))
	average.check(op, classes)
	return perClass{classes, average, which}
}

// Precision is the fraction of the predictions of a class that are right:
// "precision". Its memory is 24 bytes per class on each device.
func Precision(classes int, average Average) Metric {
	return newPerClass("Precision", classes, average, "precision")
}

// Recall is the fraction of the examples of a class that are found: "recall".
// Memory as [Precision].
func Recall(classes int, average Average) Metric {
	return newPerClass("Recall", classes, average, "recall")
}

// F1 is the harmonic mean of precision and recall: "f1". Memory as [Precision].
func F1(classes int, average Average) Metric { return newPerClass("F1", classes, average, "f1") }

// PrecisionRecallF1 computes all three at the cost of one.
func PrecisionRecallF1(classes int, average Average) Metric {
	return newPerClass("PrecisionRecallF1", classes, average, "precision", "recall", "f1")
}

func (p perClass) Names() []string { return slices.Clone(p.which) }

// Update counts, for every class, what was right, what was predicted and what was
// there.
func (p perClass) Update(output, target *locus.Tensor) []*locus.Tensor {
	const op = "PrecisionRecallF1"
	checkClasses(op, output, p.classes)
	got, want := predicted(op, output, target)
	right := got.Eq(want).Cast(locus.Int64)
	none := zeros(got, p.classes)
	return []*locus.Tensor{none.IndexAdd(0, want, right), none.IndexAdd(0, got, got.OnesLike()), none.IndexAdd(0, want, got.OnesLike())}
}

func checkClasses(op string, output *locus.Tensor, classes int) {
	have := 2
	if !single(output) && output.Rank() > 1 {
		have = output.Dim(1)
	}
	if have != classes {
		fail(locus.ErrShape, op, fmt.Sprintf("scores of shape %v are of %d classes; the metric was made for %d", output.Shape(), have, classes), "")
	}
}

func (p perClass) Values(sums [][]float64) []float64 {
	checkSums("PrecisionRecallF1", sums, p.classes, p.classes, p.classes)
	right, got, want := sums[0], sums[1], sums[2]
	compute := func(which string, right, got, want float64) float64 {
		var over float64
		switch which {
		case "precision":
			over = got
		case "recall":
			over = want
		default:
			right, over = 2*right, got+want
		}
		if over == 0 {
			return 0
		}
		return right / over
	}
	out := make([]float64, len(p.which))
	for k, which := range p.which {
		switch p.average {
		case Binary:
			out[k] = compute(which, right[1], got[1], want[1])
		case Micro:
			out[k] = compute(which, total(right), total(got), total(want))
		default:
			weights := 0.0
			for c := range right {
				w := 1.0
				if p.average == Weighted {
					w = want[c]
				}
				if got[c]+want[c] == 0 {
					continue
				}
				weights += w
				out[k] += w * compute(which, right[c], got[c], want[c])
			}
			out[k] = ratio(out[k], weights)
		}
	}
	return out
}

func total(l []float64) (sum float64) {
	for _, v := range l {
		sum += v
	}
	return sum
}

type confusion struct{ classes int }

// ConfusionMatrix counts, for every class (row), how often each was predicted
// (column). It is a table, "confusion_matrix", not a number. Its memory is 8
// bytes times the square of the number of classes on each device.
func ConfusionMatrix(classes int) Tabler {
	gate.Check("metric.ConfusionMatrix", gate.Count("the number of classes", classes, 2, 1<<14))
	return confusion{classes}
}

func (c confusion) Names() []string { return nil }

func (c confusion) Update(output, target *locus.Tensor) []*locus.Tensor {
	const op = "ConfusionMatrix"
	checkClasses(op, output, c.classes)
	got, want := predicted(op, output, target)
	n := c.classes * c.classes
	// A class that does not exist must not become another row's column: it is sent
	// outside of the table, which is an ErrIndex.
	known := want.Ge(0).And(want.Lt(c.classes))
	at := known.Where(want.Mul(c.classes).Add(got), n)
	return []*locus.Tensor{zeros(got, n).IndexAdd(0, at, got.OnesLike())}
}

func (c confusion) Values([][]float64) []float64 { return nil }

func (c confusion) Table(sums [][]float64) (string, [][]float64) {
	if len(sums) > 0 {
		checkSums("ConfusionMatrix", sums, c.classes*c.classes)
	}
	rows := make([][]float64, c.classes)
	for i := range rows {
		if len(sums) > 0 {
			rows[i] = slices.Clone(sums[0][i*c.classes : (i+1)*c.classes])
		}
	}
	return "confusion_matrix", rows
}
