package bench

import (
	"github.com/locusml/locus"
)

// Two is the time of two rounds of products of n×n matrices.
type Two struct {
	N        int    `json:"n"`
	Products int    `json:"products"` // in each of the two rounds
	Sequence Timing `json:"sequence"` // both rounds on one GPU
	AtOnce   Timing `json:"at_once"`  // one round on each GPU
	Waiting  Timing `json:"waiting"`  // one on each GPU, but the first waited for before the second starts
}

// Speedup is how many times faster two GPUs are than one.
func (t Two) Speedup() float64 { return t.Sequence.Median / t.AtOnce.Median }

// Parallel is the fourth exercise.
type Parallel struct {
	Rows []Two `json:"rows"`
}

func (m *meter) parallel() error {
	sizes := []int{128, 256, 512, 768}
	if !m.Pair[0].Virtual {
		sizes = []int{512, 1024, 2048, 4096}
	}
	if m.Sizes != nil {
		sizes = m.Sizes
	}
	r := &Parallel{}
	for _, n := range sizes {
		row, err := m.two(n)
		if err != nil {
			return err
		}
		r.Rows = append(r.Rows, row)
	}
	m.Parallel = r
	return nil
}

func (m *meter) two(n int) (Two, error) {
	const k = 4
	first, second := m.Pair[0].Device, m.Pair[1].Device
	key := locus.NewKey(uint64(n))
	a := first.Key(key.Fold(0)).Rand(n, n)
	b := a.CopyTo(second)
	defer a.Free()
	defer b.Free()
	round := func(s *locus.Scope, x *locus.Tensor) {
		x = s.Use(x)
		for range k {
			x.MatMul(x)
		}
	}
	row := Two{N: n, Products: k}
	t, err := m.compare(
		func(s *locus.Scope) { round(s, a); round(s, a); wait(first) },
		func(s *locus.Scope) { round(s, a); round(s, b); wait(first, second) },
		func(s *locus.Scope) { round(s, a); wait(first); round(s, b); wait(second) })
	if err != nil {
		return row, err
	}
	row.Sequence, row.AtOnce, row.Waiting = t[0], t[1], t[2]
	return row, nil
}
