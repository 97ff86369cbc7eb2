package train

import (
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/train/metric"
)

// counter counts batches for the metrics of [Measure]: inside a step that is compiled,
// or behind it where a metric keeps something of every example (an exact AUC), since a
// program has tensors of fixed sizes only. A nil counter counts nothing.
type counter struct {
	*metric.Meter
	behind bool
}

// newCounter makes a counter of metrics, nil of none.
func newCounter(metrics []metric.Metric) *counter {
	if len(metrics) == 0 {
		return nil
	}
	return &counter{metric.NewMeter(metrics...), slices.ContainsFunc(metrics, func(m metric.Metric) bool {
		_, ok := m.(metric.Collector)
		return ok
	})}
}

// meter returns the counter's meter, which may be nil.
func (c *counter) meter() *metric.Meter {
	if c == nil {
		return nil
	}
	return c.Meter
}

// inside counts what a step has seen of a batch, in scope sc, or returns it as results of
// the step, which are to be counted behind it.
func (c *counter) inside(sc *locus.Scope, seen []*locus.Tensor) []*locus.Tensor {
	switch {
	case c == nil || seen == nil:
		return nil
	case !c.behind:
		locus.NoGrad(func() { c.Add(seen[0], seen[1]) })
		return nil
	}
	own(sc, seen[:1])
	return seen // the target is the batch's
}

// after counts the results of a step that are to be counted, if any.
func (c *counter) after(seen []*locus.Tensor) {
	if len(seen) > 0 {
		c.Add(seen[0], seen[1])
		seen[0].Free()
	}
}

// metersOf returns the meters of counters, for metric.Read.
func metersOf(counters []*counter) []*metric.Meter {
	l := make([]*metric.Meter, len(counters))
	for i, c := range counters {
		l[i] = c.meter()
	}
	return l
}
