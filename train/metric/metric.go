// Package metric measures networks over whole datasets: accuracy, errors, F1, the
// area under the ROC curve and so on.
//
// A metric is not the mean of its values over batches: that is wrong where batches
// differ in size, and for most metrics where they do not. Here each batch adds to
// statistics, which stay on the device that computed the batch. The metric is
// computed from their sums when it is read, so batches of any size on any number of
// devices have the same result as one batch on one device.
//
// The trainer takes metrics with train.Measure. A loop by hand uses a [Meter]:
//
//	m := metric.NewMeter(metric.Accuracy(), metric.TopK(5))
//	for … {
//		m.Add(net.Forward(x), y) // nothing waits
//	}
//	fmt.Println(m.Values()) // map[accuracy:0.71 top_5_accuracy:0.93]
package metric

import (
	"fmt"

	"github.com/locusml/locus"
)

// Metric computes one or more numbers from statistics that can be added up. It has
// no state and may be used from several goroutines.
type Metric interface {
	// Names are those of the numbers, at least one unless it is a [Tabler].
	Names() []string

	// Update returns the statistics of a batch, on its device: always as many
	// tensors, of the same shapes. Those of integers and bools are added up in
	// int64, others in float64.
	Update(output, target *locus.Tensor) []*locus.Tensor

	// Values computes the numbers, in the order of Names, from the sums of the
	// statistics over all batches; NaN where a number is not defined for them.
	Values(sums [][]float64) []float64
}

// Collector is a metric that depends on all examples at once. Its statistics, of
// any type, are kept for every example and joined along axis 0 whereas those of
// other metrics are added up; [Metric.Values] gets them whole. Its memory grows
// with the number of examples, so it is for data that is known to be small enough.
type Collector interface {
	Metric

	// BytesPerExample is the memory that an example takes on its device.
	BytesPerExample() int
}

// Tabler is a metric with a table to show, such as a confusion matrix.
type Tabler interface {
	Metric
	Table(sums [][]float64) (name string, rows [][]float64)
}

// Func makes a metric of one number from functions: see [Metric].
func Func(name string, update func(output, target *locus.Tensor) []*locus.Tensor, value func(sums [][]float64) float64) Metric {
	if name == "" || update == nil || value == nil {
		fail(locus.ErrArgument, "Func", "the name is empty, or a function is nil", "")
	}
	return function{name, update, value}
}

type function struct {
	name   string
	update func(output, target *locus.Tensor) []*locus.Tensor
	value  func(sums [][]float64) float64
}

func (f function) Names() []string { return []string{f.name} }

func (f function) Update(output, target *locus.Tensor) []*locus.Tensor {
	return f.update(output, target)
}

func (f function) Values(sums [][]float64) []float64 { return []float64{f.value(sums)} }

// fail panics with a misuse of a metric.
func fail(kind error, op, msg, fix string) {
	panic(&locus.Error{Kind: kind, Op: "metric." + op, Msg: msg, Fix: fix})
}

// checkSums refuses sums that are not those of a metric's own statistics, which have
// the given lengths: a checkpoint may be of other metrics.
func checkSums(op string, sums [][]float64, lengths ...int) {
	ok := len(sums) == len(lengths)
	for i, n := range lengths {
		ok = ok && len(sums[i]) == n
	}
	if !ok {
		have := make([]int, len(sums))
		for i, l := range sums {
			have[i] = len(l)
		}
		fail(locus.ErrArgument, op, fmt.Sprintf("sums of lengths %v; those of this metric have %v", have, lengths), "use what the same metric returned")
	}
}

// ratio is a/b; undefined where b is 0.
func ratio(a, b float64) float64 { return a / b }
