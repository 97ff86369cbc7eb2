package locus

import (
	"errors"
	"testing"
)

func TestTriangles(t *testing.T) {
	m := As(Float64).Arange(1, 10).Reshape(3, 3)
	near(t, m.Tril(0), []float64{1, 0, 0, 4, 5, 0, 7, 8, 9}, 0)
	near(t, m.Tril(1), []float64{1, 2, 0, 4, 5, 6, 7, 8, 9}, 0)
	near(t, m.Tril(-2), []float64{0, 0, 0, 0, 0, 0, 7, 0, 0}, 0)
	near(t, m.Triu(0), []float64{1, 2, 3, 0, 5, 6, 0, 0, 9}, 0)
	near(t, m.Triu(1), []float64{0, 2, 3, 0, 0, 6, 0, 0, 0}, 0)
	near(t, m.Triu(-1), []float64{1, 2, 3, 4, 5, 6, 0, 8, 9}, 0)
	near(t, m.Triu(5), make([]float64, 9), 0)
	near(t, m.Tril(0).Add(m.Triu(1)), ToSlice[float64](m), 0)
	near(t, TriangularMask(2, 3, 0), []float64{1, 0, 0, 1, 1, 0}, 0)
	near(t, TriangularMask(2, 3, 1), []float64{1, 1, 0, 1, 1, 1}, 0)
	near(t, m.Cast(Int32).Tril(-1), []float64{0, 0, 0, 4, 0, 0, 7, 8, 0}, 0)
	near(t, m.Gt(0).Tril(0), []float64{1, 0, 0, 1, 1, 0, 1, 1, 1}, 0)
	hasShape(t, Zeros(4, 0, 3).Tril(0), 4, 0, 3)
	in := randomly([]int{2, 3, 4})
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Tril(1) }, in...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Triu(1) }, in...)
}

func TestDiagonals(t *testing.T) {
	m := As(Float64).Arange(1, 7).Reshape(2, 3)
	near(t, m.Trace(), []float64{6}, 0)
	near(t, m.Diag(1), []float64{2, 6}, 0)
	v := From([]float64{1, 2})
	near(t, v.Diag(0), []float64{1, 0, 0, 2}, 0)
	near(t, v.Diag(1), []float64{0, 1, 0, 0, 0, 2, 0, 0, 0}, 0)
	near(t, v.Diag(-1), []float64{0, 0, 0, 1, 0, 0, 0, 2, 0}, 0)
	hasShape(t, m.DiagEmbed(-2), 2, 5, 5)
	near(t, m.DiagEmbed(-2).Diagonal(-2, 1, 2), ToSlice[float64](m), 0)
	hasShape(t, Zeros(0).DiagEmbed(0), 0, 0)
	in := randomly([]int{2, 3})
	for _, offset := range []int{-1, 0, 2} {
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].DiagEmbed(offset) }, in...)
	}
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Trace() }, randomly([]int{2, 3, 4})...)
}

func TestProducts(t *testing.T) {
	a, b := From([]float64{1, 2}), From([]float64{3, 4, 5})
	near(t, a.Outer(b), []float64{3, 4, 5, 6, 8, 10}, 0)
	near(t, a.Kron(b), []float64{3, 4, 5, 6, 8, 10}, 0)
	near(t, Eye(2).Cast(Float64).Kron(a.Unsqueeze(1)), []float64{1, 0, 2, 0, 0, 1, 0, 2}, 0)
	hasShape(t, Zeros(2).Kron(Zeros(3, 4)), 3, 8)
	x, y := From([]float64{1, 0, 0, 1, 2, 3}, 2, 3), From([]float64{0, 1, 0, 3, 2, 1}, 2, 3)
	near(t, x.Cross(y, 1), []float64{0, 0, 1, -4, 8, -4}, 0)
	near(t, x.T().Cross(y.T(), 0).T(), []float64{0, 0, 1, -4, 8, -4}, 0)
	near(t, x.Cross(From([]float64{0, 1, 0}), -1), []float64{0, 0, 1, -3, 0, 1}, 0)
	near(t, a.Lerp(From([]float64{3, 0}), 0.25), []float64{1.5, 1.5}, 0)
	near(t, a.Lerp(From([]float64{3, 0}), From([]float64{0, 1})), []float64{1, 0}, 0)
	in := randomly([]int{2, 3}, []int{2, 3}, []int{2, 3})
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Kron(in[1]) }, in[:2]...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Cross(in[1], 1) }, in[:2]...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Lerp(in[1], in[2]) }, in...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Outer(in[1]) }, randomly([]int{2}, []int{3})...)
}

func TestCumProd(t *testing.T) {
	x := From([]float64{1, 2, 3, 4, 5, 0, 7, 2}, 2, 4)
	near(t, x.CumProd(1), []float64{1, 2, 6, 24, 5, 0, 0, 0}, 0)
	near(t, x.CumProd(0), []float64{1, 2, 3, 4, 5, 0, 21, 8}, 0)
	near(t, Arange(1, 8).CumProd(-1), []float64{1, 2, 6, 24, 120, 720, 5040}, 0)
	hasShape(t, Zeros(2, 0).CumProd(1), 2, 0)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].CumProd(1) }, x) // a zero among them
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].CumProd(0) }, randomly([]int{5, 2})...)
}

func TestMatrixErrors(t *testing.T) {
	v := Zeros(3)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"triangle of a vector": {ErrShape, func() { v.Tril(0) }},
		"trace of a vector":    {ErrShape, func() { v.Trace() }},
		"diag of a cube":       {ErrShape, func() { Zeros(1, 1, 1).Diag(0) }},
		"diagonal of a scalar": {ErrShape, func() { v.Sum().DiagEmbed(0) }},
		"outer of a matrix":    {ErrShape, func() { v.Outer(Zeros(2, 2)) }},
		"kron of many axes":    {ErrShape, func() { Zeros(1, 1, 1, 1, 1).Kron(v) }},
		"cross of four":        {ErrShape, func() { Zeros(4).Cross(Zeros(4), 0) }},
		"cross, other sizes":   {ErrShape, func() { v.Cross(Zeros(2), 0) }},
		"cross, no such axis":  {ErrAxis, func() { v.Cross(v, 1) }},
		"cumprod, no axis":     {ErrAxis, func() { v.CumProd(1) }},
		"a negative mask":      {ErrShape, func() { TriangularMask(-1, 2, 0) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}
