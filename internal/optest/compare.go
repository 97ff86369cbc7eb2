package optest

import (
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
)

// allowed is the relative error that a type allows. What is added to it, for
// elements that come from sums, is relative to the tensor's largest element.
func allowed(d locus.DType, o *Op) (relative, ofLargest float64) {
	f := max(o.Tolerance, 1)
	switch d {
	case locus.Float64:
		return f * 1e-11, f * 1e-13
	case locus.Float32:
		return f * 4e-6, f * 5e-7
	}
	f = max(o.HalfTolerance, 1) * elem.OfFloat(d).Step(1)
	return 2 * f, f / 2
}

// values reads a tensor's elements as float64; integers of this suite are
// small enough.
func values(t *locus.Tensor) []float64 {
	switch t.DType() {
	case locus.Float64:
		return locus.ToSlice[float64](t)
	case locus.Int64:
		var l []float64
		for _, v := range locus.ToSlice[int64](t) {
			l = append(l, float64(v))
		}
		return l
	}
	return locus.ToSlice[float64](t.Detach().Cast(locus.Float64))
}

// check compares a tensor with a recorded one. scale is the size of the numbers
// that were summed up to small ones: 0 for results, 1 for gradients, whose
// weights are of that size.
func (a *Array) check(got *locus.Tensor, o *Op, scale float64) error {
	if got.DType() != a.DType {
		return fmt.Errorf("is %s, want %s", got.DType(), a.DType)
	}
	if !slices.Equal(got.Shape(), a.Shape) {
		return fmt.Errorf("has shape %s, want %s", op.ShapeString(got.Shape()), op.ShapeString(a.Shape))
	}
	want := a.Values()
	if !a.DType.IsFloat() {
		return closeTo(values(got), want, 0, 0)
	}
	rel, ofLargest := allowed(a.DType, o)
	return closeTo(values(got), want, rel, ofLargest*max(largest(want), scale))
}

// largest is the largest finite magnitude.
func largest(s []float64) float64 {
	m := 0.0
	for _, v := range s {
		if a := math.Abs(v); a > m && !math.IsInf(a, 0) {
			m = a
		}
	}
	return m
}

// closeTo reports the first element that is not within rel·|want| + abs of what
// it should be. NaN and infinities must be the same.
func closeTo(got, want []float64, rel, abs float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("has %d elements, want %d", len(got), len(want))
	}
	wrong, first := 0, -1
	for i, w := range want {
		g := got[i]
		if g == w || math.IsNaN(g) && math.IsNaN(w) || math.Abs(g-w) <= rel*math.Abs(w)+abs && !math.IsInf(w, 0) {
			continue
		}
		if wrong++; first < 0 {
			first = i
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d elements are wrong: element %d is %v, want %v", wrong, len(want), first, got[first], want[first])
	}
	return nil
}
