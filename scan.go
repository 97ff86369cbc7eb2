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

// CumProd gives running products along an axis.
func (t *Tensor) CumProd(axis int) *Tensor {
	t.check("CumProd")
	a := t.axis("CumProd", axis)
	n := t.shape[a]
	if n == 0 {
		return t
	}
	// Products of 1, 2, 4, … neighbours, which gives exact gradients at zeros too.
	p := t
	pad := make([]int, 2*(a+1))
	for by := 1; by < n; by *= 2 {
		pad[2*a] = by
		p = p.Mul(p.Narrow(a, 0, n-by).Pad(1, pad...))
	}
	return p
}
