package metric

import (
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// In a compiled function the sums of a meter are variables of the program.

// sumHolder is one sum of metric i.
type sumHolder struct {
	m    *Meter
	i, k int
}

func (h sumHolder) Load() any {
	if l := h.m.sums[h.i]; h.k < len(l) {
		return l[h.k]
	}
	return (*locus.Tensor)(nil)
}

func (h sumHolder) Store(v any) {
	if h.k >= len(h.m.sums[h.i]) { // the first batch
		h.m.sums[h.i] = append(slices.Clone(h.m.sums[h.i]), make([]*locus.Tensor, h.k+1-len(h.m.sums[h.i]))...)
	}
	h.m.sums[h.i][h.k] = v.(*locus.Tensor)
}

// before returns the sums of metric i so far; nil before the first batch.
func (m *Meter) before(i int) []*locus.Tensor {
	if trace.Current() == nil {
		return m.sums[i]
	}
	var out []*locus.Tensor
	for { // a program depends on how many there are, so the first that is missing counts
		t := trace.Get(sumHolder{m, i, len(out)}).(*locus.Tensor)
		if t == nil {
			return out
		}
		out = append(out, t)
	}
}

// replace puts the sums of metric i in place and frees those before.
func (m *Meter) replace(i int, sums []*locus.Tensor) {
	for _, t := range m.before(i) {
		t.Free()
	}
	if trace.Current() == nil {
		m.sums[i] = sums
		return
	}
	for k, t := range sums {
		if h := (sumHolder{m, i, k}); !trace.Set(h, t) {
			h.Store(t)
		}
	}
}
