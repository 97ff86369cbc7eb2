package metric

import (
	"errors"
	"fmt"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/trace"
)

// Meter adds up the statistics of metrics on the device of the batches. It must
// not be used from several goroutines at the same time; use one for each device,
// and [Read] for all of them.
type Meter struct {
	metrics []Metric
	sums    [][]*locus.Tensor // of each metric, in no scope; nil before the first batch
	chunks  [][]chunk         // of each Collector what it has collected, instead of sums
}

// chunk is a Collector's statistics of some batches, joined.
type chunk []*locus.Tensor

func (c chunk) free() {
	for _, t := range c {
		t.Free()
	}
}

// NewMeter makes a meter. Two metrics with one name are an ErrArgument.
func NewMeter(metrics ...Metric) *Meter {
	gate.Check("metric.NewMeter", Check(metrics...))
	return &Meter{slices.Clone(metrics), make([][]*locus.Tensor, len(metrics)), make([][]chunk, len(metrics))}
}

// Check returns an error for metrics that cannot be measured together: nil, or two
// with one name.
func Check(metrics ...Metric) error {
	seen := map[string]bool{}
	for i, m := range metrics {
		if gate.IsNil(m) {
			return &locus.Error{Kind: locus.ErrArgument, Op: "metric", Msg: fmt.Sprintf("metric %d is nil", i)}
		}
		names := slices.Clone(m.Names())
		if t, ok := m.(Tabler); ok {
			names = append(names, tableName(t))
		}
		for _, n := range names {
			if n == "" || seen[n] {
				return &locus.Error{Kind: locus.ErrArgument, Op: "metric", Msg: fmt.Sprintf("the name %q is empty, or two metrics have it", n),
					Fix: "measure each once, or give one another name with metric.As"}
			}
			seen[n] = true
		}
	}
	return nil
}

// ready panics unless m was made by NewMeter.
func (m *Meter) ready(op string) *Meter {
	gate.Receiver("metric.Meter."+op, m != nil, "make it with metric.NewMeter")
	return m
}

// Add adds a batch: a network's output and what it should have been, on one
// device. Nothing waits. Tensors are left as they are.
func (m *Meter) Add(output, target *locus.Tensor) {
	if len(m.ready("Add").metrics) == 0 {
		return
	}
	for what, t := range map[string]*locus.Tensor{"output": output, "target": target} {
		if t == nil || !t.DType().Valid() {
			fail(locus.ErrArgument, "Meter.Add", "the "+what+" is nil or a zero value", "")
		}
	}
	if t := trace.Current(); t != nil && slices.ContainsFunc(m.metrics, collects) {
		t.Refuse("a metric keeps a statistic of every example, which grows with every call")
		return // the function is called again, without a program
	}
	// What does not fit changes nothing.
	sums, added := make([][]*locus.Tensor, len(m.metrics)), make([]chunk, len(m.metrics))
	locus.NoGrad(func() {
		locus.Scoped(func(s *locus.Scope) {
			y, want := s.Use(output.Detach()), s.Use(target.Detach())
			for i, metric := range m.metrics {
				if collects(metric) {
					added[i] = m.collect(s, i, metric.Update(y, want))
				} else {
					sums[i] = m.sum(s, i, metric.Update(y, want))
				}
			}
			for i := range m.metrics {
				for _, t := range slices.Concat(sums[i], added[i]) {
					s.Keep(t)
				}
			}
		})
	})
	for i, l := range sums {
		m.replace(i, l)
	}
	for i, c := range added {
		if c != nil {
			m.chunks[i] = append(m.chunks[i], c)
			m.tidy(i)
		}
	}
}

// collects reports whether m is a Collector.
func collects(m Metric) bool {
	_, ok := m.(Collector)
	return ok
}

// collect returns a batch's statistics of metric i, a Collector, in memory of
// their own.
func (m *Meter) collect(s *locus.Scope, i int, stats []*locus.Tensor) chunk {
	if len(stats) == 0 {
		fail(locus.ErrArgument, "Meter.Add", name(m.metrics[i])+" returned no statistics", "")
	}
	c := make(chunk, len(stats))
	for k, t := range stats {
		if t == nil || t.Rank() == 0 {
			fail(locus.ErrArgument, "Meter.Add", fmt.Sprintf("statistic %d of %s is nil or one number; want examples along axis 0", k, name(m.metrics[i])), "")
		}
		c[k] = s.Use(t.Detach()).Copy()
	}
	if l := m.chunks[i]; len(l) > 0 {
		for k := range max(len(l[0]), len(c)) {
			if len(l[0]) != len(c) || !slices.Equal(l[0][k].Shape()[1:], c[k].Shape()[1:]) || l[0][k].DType() != c[k].DType() {
				fail(locus.ErrShape, "Meter.Add", name(m.metrics[i])+" returned statistics of other shapes or types than before", "")
			}
		}
	}
	return c
}

// tidy joins the last chunks of metric i while the last is at least as long as the
// one before it. So there are few chunks, and each example is copied few times.
func (m *Meter) tidy(i int) {
	for l := m.chunks[i]; len(l) > 1 && l[len(l)-1][0].Dim(0) >= l[len(l)-2][0].Dim(0); l = m.chunks[i] {
		m.chunks[i] = append(l[:len(l)-2], join(l[len(l)-2:]))
	}
}

// join makes one chunk of several, and frees them.
func join(l []chunk) chunk {
	if len(l) == 1 {
		return l[0]
	}
	joined := make(chunk, len(l[0]))
	locus.NoGrad(func() {
		for k := range joined {
			parts := make([]*locus.Tensor, len(l))
			for i, c := range l {
				parts[i] = c[k].To(l[0][k].Device())
			}
			joined[k] = locus.Concat(0, parts...)
			for i, p := range parts {
				if p != l[i][k] {
					p.Free() // moved from another device; a view's Free does nothing
				}
			}
		}
	})
	for _, c := range l {
		c.free()
	}
	return joined
}

// all returns the statistics of all metrics: sums, and what was collected in one
// piece.
func (m *Meter) all() [][]*locus.Tensor {
	out := slices.Clone(m.sums)
	for i, l := range m.chunks {
		if len(l) > 0 {
			m.chunks[i] = []chunk{join(l)}
			out[i] = m.chunks[i][0]
		}
	}
	return out
}

// sum adds a batch's statistics of metric i to those before it.
func (m *Meter) sum(s *locus.Scope, i int, stats []*locus.Tensor) []*locus.Tensor {
	old := m.before(i)
	if old != nil && len(old) != len(stats) {
		fail(locus.ErrArgument, "Meter.Add", fmt.Sprintf("%s returned %d statistics, before it %d", name(m.metrics[i]), len(stats), len(old)), "")
	}
	out := make([]*locus.Tensor, len(stats))
	for k, t := range stats {
		if t == nil {
			fail(locus.ErrArgument, "Meter.Add", fmt.Sprintf("statistic %d of %s is nil", k, name(m.metrics[i])), "")
		}
		to := locus.Int64
		if t.DType().IsFloat() {
			to = locus.Float64
		}
		t = s.Use(t.Detach()).Cast(to)
		switch {
		case old == nil:
			t = t.Copy() // a metric may return its argument, or keep a tensor for itself
		case !slices.Equal(old[k].Shape(), t.Shape()):
			fail(locus.ErrShape, "Meter.Add", fmt.Sprintf("statistic %d of %s has shape %v, before it %v", k, name(m.metrics[i]), t.Shape(), old[k].Shape()), "")
		default:
			t = t.Add(s.Use(old[k]).To(t.Device()))
		}
		out[k] = t
	}
	return out
}

// name is how errors call a metric.
func name(m Metric) string {
	if n := m.Names(); len(n) > 0 {
		return n[0]
	}
	return fmt.Sprintf("%T", m)
}

// Reset forgets all batches.
func (m *Meter) Reset() {
	m.ready("Reset").resetSums()
	for i, l := range m.chunks {
		for _, c := range l {
			c.free()
		}
		m.chunks[i] = nil
	}
}

func (m *Meter) resetSums() {
	for i, l := range m.sums {
		chunk(l).free()
		m.sums[i] = nil
	}
}

// Names lists the names of all numbers.
func (m *Meter) Names() (names []string) {
	for _, x := range m.ready("Names").metrics {
		names = append(names, x.Names()...)
	}
	return names
}

// Values computes the metrics over all batches since the last Reset: NaN where a
// metric is not defined for them, and no values before the first batch. It waits
// for the device, once.
func (m *Meter) Values() map[string]float64 { return Read(m.ready("Values")).Values }

// Tables computes the tables of the metrics that have one, such as
// [ConfusionMatrix], by name.
func (m *Meter) Tables() map[string][][]float64 { return Read(m.ready("Tables")).Tables }

// State returns the sums by name, for a checkpoint. The next Add frees them.
func (m *Meter) State() map[string]*locus.Tensor {
	out := map[string]*locus.Tensor{}
	for i, l := range m.ready("State").all() {
		for k, t := range l {
			out[key(i, k)] = t
		}
	}
	return out
}

func key(i, k int) string { return fmt.Sprintf("%d.%d", i, k) }

// SetState restores what State returned for a meter of the same metrics. The
// tensors are copied.
func (m *Meter) SetState(state map[string]*locus.Tensor) error {
	sums := make([][]*locus.Tensor, len(m.ready("SetState").metrics))
	used := 0
	err := locus.Try(func() {
		for i := range m.metrics {
			for k := 0; ; k++ {
				t, ok := state[key(i, k)]
				if !ok {
					break
				}
				kept := collects(m.metrics[i])
				if t == nil || !kept && t.DType() != locus.Int64 && t.DType() != locus.Float64 || kept && t.Rank() == 0 {
					fail(locus.ErrArgument, "Meter.SetState", fmt.Sprintf("%s is not a sum", key(i, k)), "")
				}
				c := t.Copy()
				if s := c.Scope(); s != nil {
					s.Keep(c)
				}
				sums[i] = append(sums[i], c)
				used++
			}
		}
		if used != len(state) {
			fail(locus.ErrArgument, "Meter.SetState", fmt.Sprintf("%d sums, of which %d belong to these metrics", len(state), used), "use the same metrics in the same order")
		}
	})
	if err != nil {
		return err
	}
	m.Reset()
	m.sums = sums
	for i, metric := range m.metrics {
		if collects(metric) && sums[i] != nil {
			m.chunks[i], m.sums[i] = []chunk{sums[i]}, nil
		}
	}
	return nil
}

// Result holds the values and tables of metrics over all examples.
type Result struct {
	Values map[string]float64
	Tables map[string][][]float64
}

// errMeters is the error of meters that do not belong together.
var errMeters = errors.New("the meters measure different metrics")

// Read computes metrics over all batches of several meters, which measure the
// same ones, one per device. It waits for each device once.
func Read(meters ...*Meter) Result {
	r := Result{Values: map[string]float64{}, Tables: map[string][][]float64{}}
	if len(meters) == 0 {
		return r
	}
	metrics := meters[0].ready("Read").metrics
	sums := make([][][]float64, len(metrics))
	for _, m := range meters {
		if len(m.ready("Read").metrics) != len(metrics) {
			gate.Check("metric.Read", errMeters)
		}
		for i, l := range m.read() {
			if collects(metrics[i]) {
				sums[i] = extend(sums[i], l)
			} else {
				sums[i] = add(sums[i], l)
			}
		}
	}
	for i, m := range metrics {
		if sums[i] == nil {
			continue
		}
		values := m.Values(sums[i])
		for k, n := range m.Names() {
			if k >= len(values) {
				fail(locus.ErrArgument, "Read", fmt.Sprintf("%T computed %d values for %d names", m, len(values), len(m.Names())), "")
			}
			r.Values[n] = values[k]
		}
		if t, ok := m.(Tabler); ok {
			n, rows := t.Table(sums[i])
			r.Tables[n] = rows
		}
	}
	return r
}

// extend joins what two meters have collected.
func extend(a, b [][]float64) [][]float64 {
	if a == nil || b == nil {
		return slices.Concat(a, b)
	}
	if len(a) != len(b) {
		gate.Check("metric.Read", errMeters)
	}
	for i := range a {
		a[i] = append(a[i], b[i]...)
	}
	return a
}

func add(a, b [][]float64) [][]float64 {
	if a == nil || b == nil {
		return slices.Concat(a, b)
	}
	if len(a) != len(b) {
		gate.Check("metric.Read", errMeters)
	}
	for i := range a {
		if len(a[i]) != len(b[i]) {
			gate.Check("metric.Read", errMeters)
		}
		for k := range a[i] {
			a[i][k] += b[i][k]
		}
	}
	return a
}

// read copies the sums from the device: all at once.
func (m *Meter) read() [][][]float64 {
	stats := m.all()
	out := make([][][]float64, len(stats))
	if len(m.State()) == 0 {
		return out
	}
	var all []float64
	locus.NoGrad(func() {
		locus.Scoped(func(s *locus.Scope) {
			var flat []*locus.Tensor
			for _, l := range stats {
				for _, t := range l {
					flat = append(flat, s.Use(t).To(m.device()).Cast(locus.Float64).Flatten())
				}
			}
			all = locus.ToSlice[float64](locus.Concat(0, flat...))
		})
	})
	for i, l := range stats {
		for _, t := range l {
			out[i] = append(out[i], all[:t.Len():t.Len()])
			all = all[t.Len():]
		}
	}
	return out
}

// device is where the sums are; statistics of a metric may be elsewhere.
func (m *Meter) device() locus.Device {
	for _, l := range m.all() {
		for _, t := range l {
			return t.Device()
		}
	}
	return locus.CPU()
}

// As is a metric under other names: prefix in front of each.
func As(prefix string, m Metric) Metric {
	gate.Check("metric.As", gate.Given("the metric", m))
	switch m := m.(type) {
	case Tabler:
		return renamedTable{renamed{prefix, m}, m}
	case Collector:
		return renamedCollector{renamed{prefix, m}, m}
	}
	return renamed{prefix, m}
}

type renamed struct {
	prefix string
	Metric
}

func (r renamed) Names() []string {
	names := slices.Clone(r.Metric.Names())
	for i := range names {
		names[i] = r.prefix + names[i]
	}
	return names
}

type renamedCollector struct {
	renamed
	collector Collector
}

func (r renamedCollector) BytesPerExample() int { return r.collector.BytesPerExample() }

type renamedTable struct {
	renamed
	table Tabler
}

func (r renamedTable) Table(sums [][]float64) (string, [][]float64) {
	n, rows := r.table.Table(sums)
	return r.prefix + n, rows
}

// tableName is that of a table, which sums do not change.
func tableName(t Tabler) (name string) {
	_ = locus.Try(func() { name, _ = t.Table(nil) })
	return name
}
