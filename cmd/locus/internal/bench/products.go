package bench

import (
	"github.com/locusml/locus"
)

// Product is the time of a product of two n×n matrices.
type Product struct {
	N      int    `json:"n"`
	CPU    Timing `json:"cpu"`
	GPU    Timing `json:"gpu"`        // the result waited for each time
	Queued Timing `json:"gpu_queued"` // of many, waited for once
}

// Products is the first exercise.
type Products struct {
	Rows []Product `json:"rows"`
	// Cross is the smallest size from which on the GPU, waited for each time, is
	// faster than the CPU at every size; 0 if there is none.
	Cross       int `json:"cross"`
	CrossQueued int `json:"cross_queued"`
}

// Rate is the speed of a product in floating-point operations a second.
func Rate(n int, seconds float64) float64 { return 2 * float64(n) * float64(n) * float64(n) / seconds }

func (m *meter) products() error {
	sizes := m.Sizes
	if sizes == nil {
		sizes = []int{4, 16, 32, 64, 128, 256, 512, 1024}
		if !m.Results.GPU.Virtual {
			sizes = append(sizes, 2048, 4096)
		}
	}
	p := &Products{}
	for _, n := range sizes {
		row := Product{N: n}
		var err error
		if row.CPU, err = m.product(locus.CPU(), n, 1); err != nil {
			return err
		}
		if row.GPU, err = m.product(m.Results.GPU.Device, n, 1); err != nil {
			return err
		}
		const queued = 20
		k := queued
		if n > 512 && m.Results.GPU.Virtual { // it would only take long
			k = 3
		}
		if row.Queued, err = m.product(m.Results.GPU.Device, n, k); err != nil {
			return err
		}
		p.Rows = append(p.Rows, row)
	}
	p.Cross = cross(p.Rows, func(r Product) Timing { return r.GPU })
	p.CrossQueued = cross(p.Rows, func(r Product) Timing { return r.Queued })
	m.Products = p
	return nil
}

// product measures one of k products that are queued and waited for together.
func (m *meter) product(d locus.Device, n, k int) (Timing, error) {
	key := locus.NewKey(uint64(n))
	a, b := d.Key(key.Fold(0)).Rand(n, n), d.Key(key.Fold(1)).Rand(n, n)
	defer a.Free()
	defer b.Free()
	t, err := m.time(func(s *locus.Scope) {
		x := s.Use(a)
		for range k {
			x.MatMul(b)
		}
		wait(d)
	})
	return t.per(k), err
}

func cross(rows []Product, of func(Product) Timing) int {
	n := 0
	for i := len(rows) - 1; i >= 0 && of(rows[i]).Median < rows[i].CPU.Median; i-- {
		n = rows[i].N
	}
	return n
}
