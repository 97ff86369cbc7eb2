package train

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// meter adds metrics up on a device, weighted by the number of examples, and is
// read all at once. Adding may be part of a compiled function.
type meter struct {
	sums    map[string]*locus.Tensor // float32, one element, in no scope
	weights map[string]float64       // of those that have been measured since the last restart
}

func newMeter() *meter { return &meter{map[string]*locus.Tensor{}, map[string]float64{}} }

// sumHolder is a sum as a variable of a program.
type sumHolder struct {
	m    *meter
	name string
}

func (h sumHolder) Load() any   { return h.m.sums[h.name] }
func (h sumHolder) Store(v any) { h.m.sums[h.name] = v.(*locus.Tensor) }

// addAll adds the means of a batch over n examples, in the order of their names: two
// traces of one step do the same.
func (m *meter) addAll(means map[string]*locus.Tensor, n int) {
	for _, name := range slices.Sorted(maps.Keys(means)) {
		m.add(name, means[name], n)
	}
}

// add adds a batch's mean over n examples. Nothing waits.
func (m *meter) add(name string, mean *locus.Tensor, n int) {
	switch {
	case mean == nil:
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "train", Msg: fmt.Sprintf("the metric %q is nil; want a tensor of one element", name)})
	case mean.Len() != 1:
		panic(&locus.Error{Kind: locus.ErrShape, Op: "train", Msg: fmt.Sprintf("the metric %q has %d elements; want one, the mean over the batch", name, mean.Len()),
			Fix: "reduce it: .Mean()"})
	}
	h := sumHolder{m, name}
	old := trace.Get(h).(*locus.Tensor)
	sum := mean.Detach().Reshape().Cast(locus.Float32)
	if old == nil {
		sum = sum.Mul(float64(n))
	} else {
		sum = sum.Blend(float64(n), old, 1)
		old.Free()
	}
	if s := sum.Scope(); s != nil {
		s.Keep(sum)
	}
	if !trace.Set(h, sum) {
		h.Store(sum)
	}
	count := func() { m.weights[name] += float64(n) }
	count()
	trace.Advance(count, func() { m.weights[name] -= float64(n) })
}

// read returns the means so far: one copy from the device for all of them.
func (m *meter) read() map[string]float64 {
	out := map[string]float64{}
	if len(m.weights) == 0 {
		return out
	}
	names := slices.Sorted(maps.Keys(m.weights))
	sums := make([]*locus.Tensor, len(names))
	for i, n := range names {
		sums[i] = m.sums[n]
	}
	all := locus.Stack(0, sums...)
	for i, v := range locus.ToSlice[float32](all) {
		out[names[i]] = float64(v) / m.weights[names[i]]
	}
	all.Free()
	return out
}

// measured returns the sums of what was measured since the last restart.
func (m *meter) measured() map[string]*locus.Tensor {
	out := map[string]*locus.Tensor{}
	for name := range m.weights {
		out[name] = m.sums[name]
	}
	return out
}

// restart begins again. The sums are zeros rather than missing, so that the first
// batch of an epoch is computed by the same program as the others.
func (m *meter) restart() {
	for name, old := range m.sums {
		m.sums[name] = old.ZerosLike()
		old.Free()
	}
	clear(m.weights)
}

// reset forgets everything.
func (m *meter) reset() {
	for _, t := range m.sums {
		t.Free()
	}
	clear(m.sums)
	clear(m.weights)
}

// reading is what a meter says: means and their weights, by name.
type reading struct{ Means, Weights map[string]float64 }

func (m *meter) reading() reading { return reading{m.read(), maps.Clone(m.weights)} }

// merge returns the means over several meters.
func merge(meters []reading) map[string]float64 {
	sum, weight := map[string]float64{}, map[string]float64{}
	for _, m := range meters {
		for k, v := range m.Means {
			sum[k] += v * m.Weights[k]
			weight[k] += m.Weights[k]
		}
	}
	for k := range sum {
		sum[k] /= weight[k]
	}
	return sum
}

// finite reports the first metric that is not a finite number.
func finite(values map[string]float64) (name string, ok bool) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if v := values[k]; math.IsNaN(v) || math.IsInf(v, 0) {
			return k, false
		}
	}
	return "", true
}
