package locus

import "github.com/locusml/locus/internal/op"

// CumSum returns running sums along an axis; of bools running counts, as int64.
func (t *Tensor) CumSum(axis int) *Tensor {
	t.check("CumSum")
	a := op.Axis{Axis: t.axis("CumSum", axis)}
	if t.dtype == Bool {
		t = t.Cast(Int64)
	}
	return apply(op.CumSum, a, t)
}

// CumMax returns the largest elements so far along an axis, and the positions of
// the last of them, as int64. A NaN counts as largest.
func (t *Tensor) CumMax(axis int) (values, positions *Tensor) { return t.cumulate(op.CumMax, axis) }

// CumMin returns the smallest elements so far along an axis, and the positions of
// the last of them, as int64. A NaN counts as smallest.
func (t *Tensor) CumMin(axis int) (values, positions *Tensor) { return t.cumulate(op.CumMin, axis) }

// cumulate reads the elements where they were found.
func (t *Tensor) cumulate(id op.ID, axis int) (values, positions *Tensor) {
	t.check("CumMax")
	a := op.Axis{Axis: t.axis("CumMax", axis)}
	positions = apply(id, a, t.detach())
	return apply(op.Gather, a, t, positions), positions
}

// CumProd returns running products along an axis.
func (t *Tensor) CumProd(axis int) *Tensor {
	t.check("CumProd")
	a := t.axis("CumProd", axis)
	n := t.shape[a]
	if n == 0 {
		return t
	}
	// Products of 1, 2, 4, … neighbors, which has exact gradients at zeros too.
	p := t
	pad := make([]int, 2*(a+1))
	for by := 1; by < n; by *= 2 {
		pad[2*a] = by
		p = p.Mul(p.Narrow(a, 0, n-by).Pad(1, pad...))
	}
	return p
}
