package bench

import (
	"math"

	"github.com/locusml/locus"
)

// Beside is the time of products on a GPU and of a copy to it.
type Beside struct {
	Bytes    int    `json:"bytes"`    // of the copy, from page-locked memory
	Products int    `json:"products"` // about as long as the copy
	Compute  Timing `json:"compute"`  // the products alone
	Copy     Timing `json:"copy"`     // the copy alone
	Apart    Timing `json:"apart"`    // the one waited for before the other starts
	AtOnce   Timing `json:"at_once"`  // both queued, then waited for
}

// Speedup is how many times faster both are at once than apart.
func (b Beside) Speedup() float64 { return b.Apart.Median / b.AtOnce.Median }

// Overlap is the fifth exercise.
type Overlap struct {
	N    int      `json:"n"` // the size of the matrices
	Rows []Beside `json:"rows"`
}

func (m *meter) overlap() error {
	gpu := m.Results.GPU
	r := &Overlap{N: 2048}
	sizes := []int{4 << 20, 16 << 20, 64 << 20, 256 << 20}
	if gpu.Virtual {
		r.N = 256
		sizes = []int{1 << 20, 4 << 20, 16 << 20}
	}
	if m.Sizes != nil { // to see that it works
		r.N, sizes = 64, []int{1 << 20}
	}
	x := gpu.Device.Key(locus.NewKey(5)).Rand(r.N, r.N)
	defer x.Free()
	for _, n := range sizes {
		row, err := m.beside(x, n)
		if err != nil {
			return err
		}
		r.Rows = append(r.Rows, row)
	}
	m.Overlap = r
	return nil
}

func (m *meter) beside(x *locus.Tensor, size int) (Beside, error) {
	row := Beside{Bytes: size, Products: 1}
	gpu := x.Device()
	batch := locus.CPU().Ones(size / 4).Pin()
	defer batch.Free()
	compute := func(s *locus.Scope) {
		y := s.Use(x)
		for range row.Products {
			y.MatMul(x)
		}
	}
	send := func(s *locus.Scope) { s.Use(batch).To(gpu) }
	alone := func(f func(*locus.Scope)) func(*locus.Scope) {
		return func(s *locus.Scope) { f(s); wait(gpu) }
	}
	// As many products as take about as long as the copy: then there is most to hide.
	t, err := m.compare(alone(compute), alone(send))
	if err != nil {
		return row, err
	}
	row.Products = int(min(max(math.Round(t[1].Median/t[0].Median), 1), 256))
	t, err = m.compare(alone(compute), alone(send),
		func(s *locus.Scope) { send(s); wait(gpu); compute(s); wait(gpu) },
		func(s *locus.Scope) { send(s); compute(s); wait(gpu) })
	if err != nil {
		return row, err
	}
	row.Compute, row.Copy, row.Apart, row.AtOnce = t[0], t[1], t[2], t[3]
	return row, nil
}
