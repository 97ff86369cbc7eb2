package train

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Direction says which values of a metric are better.
type Direction uint8

// The directions.
const (
	Lowest  Direction = iota + 1 // of a loss or an error
	Highest                      // of an accuracy
)

// String returns the direction's name.
func (d Direction) String() string {
	switch d {
	case Lowest:
		return "Lowest"
	case Highest:
		return "Highest"
	}
	return fmt.Sprintf("Direction(%d)", uint8(d))
}

// Monitor names the validation metric that EarlyStopping and KeepBest look at, and
// says which of its values is best:
//
//	train.Monitor("accuracy", train.Highest)
//
// Without it they look for the lowest loss. A name that the model does not measure
// is an error that lists those it does.
func Monitor(metric string, better Direction) Option {
	return Option{func(s *settings) { s.monitor, s.better, s.monitored = metric, better, true }}
}

// monitor compares epochs by one metric. What it knows is part of a checkpoint.
type monitor struct {
	best      nn.Tree // of the best epoch, on the CPU, where that is to be kept
	value     float64 // of the best epoch; the lower the better
	sinceBest int
}

// judge compares an epoch with the best before it; it reports whether it is time
// to stop.
func (r *run) judge(e *Epoch) (stop bool, err error) {
	if r.validation == nil {
		return false, nil
	}
	v, ok := e.Validation[r.set.monitor]
	if !ok {
		return false, r.checkMonitored(e.Validation)
	}
	if r.plateau != nil {
		r.plateau.Observe(v)
	}
	if math.IsNaN(v) {
		return false, nil
	}
	if r.set.better == Highest {
		v = -v
	}
	m := &r.monitor
	if r.report.BestEpoch < 0 || v < m.value {
		e.Best = true
		m.value, r.report.BestEpoch, m.sinceBest = v, e.Number, 0
		if r.set.keepBest {
			m.best = r.measured().Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.CopyTo(locus.CPU()) })
		}
		return false, nil
	}
	m.sinceBest++
	if r.set.stopEarly && m.sinceBest >= r.set.patience {
		r.report.Stopped = fmt.Sprintf("no better %s for %d epochs", r.set.monitor, m.sinceBest)
		return true, nil
	}
	return false, nil
}

// checkMonitored refuses the name of a metric that the model does not measure, if
// anything depends on it.
func (r *run) checkMonitored(measured map[string]float64) error {
	if _, ok := measured[r.set.monitor]; ok || !r.set.watches() {
		return nil
	}
	names := slices.Sorted(maps.Keys(measured))
	for i, n := range names {
		names[i] = fmt.Sprintf("%q", n)
	}
	return fmt.Errorf("train: there is no validation metric %q to monitor; the model measures %s: %w", r.set.monitor, strings.Join(names, ", "), locus.ErrArgument)
}

// checkMonitor finds a metric that does not exist before an epoch is spent: it
// measures one example.
func (r *run) checkMonitor() error {
	if r.validation == nil || !r.set.watches() {
		return nil
	}
	measured := map[string]float64{}
	nn.Eval(r.model)
	defer nn.Train(r.model)
	err := r.tryOne(r.data.Validation, Validating, func(fields []*locus.Tensor) {
		count := newCounter(r.set.measures)
		metrics, seen := validationStep(r.model, fields, count.meter())
		for name := range metrics {
			measured[name] = 0
		}
		if count != nil && seen != nil {
			count.Add(seen[0], seen[1]) // what does not fit is an error
		}
		if count != nil {
			for _, name := range count.Names() {
				measured[name] = 0
			}
			count.Reset()
		}
	})
	if err != nil {
		return err
	}
	return r.checkMonitored(measured)
}

// measured returns the tensors that the validation data is measured with: the
// model's, or the averages of its parameters.
func (r *run) measured() nn.Tree {
	t := nn.TreeOf(r.model)
	if r.average != nil {
		t = t.With(r.average.Tree())
	}
	return t
}

// finish sets the model's parameters to those of its best epoch, or to the
// averages.
func (r *run) finish() {
	if !r.set.keepBest || r.monitor.best == nil {
		if r.average != nil {
			r.average.Apply()
		}
		return
	}
	for _, e := range nn.State(r.model) {
		e.Set(r.monitor.best[e.Name].To(r.devices[0]))
	}
}
