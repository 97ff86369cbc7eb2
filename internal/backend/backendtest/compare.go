package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// check compares a kernel's result with what is expected and describes the
// first difference, or nothing.
func (e *expected) check(got []byte) error {
	if e.bits != nil && bytes.Equal(e.bits, got) {
		return nil
	}
	wrong := 0
	var first error
	for i := range e.len() {
		var err error
		if e.floats != nil {
			err = e.checkFloat(i, sample.GetFloat(e.dtype, got, i))
		} else if g := sample.GetInt(e.dtype, got, i); g != e.ints[i] {
			err = fmt.Errorf("%d, want %d", g, e.ints[i])
		}
		if err != nil {
			if wrong++; first == nil {
				first = fmt.Errorf("element %v is %w", coords(e.shape, i), err)
			}
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d elements of %s are wrong: %w", wrong, e.len(), op.ShapeString(e.shape), first)
	}
	return nil
}

// checkAll is check of memory that goes on behind the result, where nothing may
// have been written.
func (e *expected) checkAll(got []byte) error {
	size := e.len() * e.dtype.Size()
	if err := e.check(got[:size]); err != nil {
		return err
	}
	for _, b := range got[size:] {
		if b != filler {
			return errors.New("wrote beyond the end of its result")
		}
	}
	return nil
}

func (e *expected) checkFloat(i int, got float64) error {
	want := e.floats[i]
	rounded := round(e.dtype, want)
	if math.IsNaN(want) || math.IsNaN(got) {
		if math.IsNaN(want) && math.IsNaN(got) {
			return nil
		}
		return fmt.Errorf("%v, want %v", got, rounded)
	}
	if got == rounded {
		if e.signs && got == 0 && math.Signbit(got) != math.Signbit(rounded) {
			return fmt.Errorf("%v, want %v with the other sign", got, rounded)
		}
		return nil
	}
	if e.exact {
		return fmt.Errorf("%v, want exactly %v", got, rounded)
	}
	bound := e.bound(i)
	if math.IsInf(want, 0) || bound != bound {
		return fmt.Errorf("%v, want %v", got, rounded)
	}
	if math.IsInf(got, 0) { // right if the error may carry the value over the edge
		if edge := round(e.dtype, want+math.Copysign(bound, want)); edge == got {
			return nil
		}
		return fmt.Errorf("%v, want %v", got, rounded)
	}
	if diff := math.Abs(got - want); diff > bound {
		return fmt.Errorf("%v, want %v: off by %.3g, allowed %.3g (%.3g steps of %s)", got, rounded, diff, bound, diff/step(e.dtype, want), e.dtype)
	}
	return nil
}

// bound is the error that element i may have.
func (e *expected) bound(i int) float64 {
	want := math.Abs(e.floats[i])
	size := want
	if e.scale != nil {
		size = max(size, e.scale[i])
	}
	compute, units := e.dtype, e.units
	b := 0.0
	switch {
	case e.dtype.IsHalf():
		compute = dtype.Float32
		at := want
		switch {
		case e.before != nil:
			at = max(at, e.before[i])
		case e.halves > 1:
			at = size
		}
		b = e.halves * step(e.dtype, at)
	case e.dtype == dtype.Float64: // the reference itself errs
		units *= 4
	}
	b += units*step(compute, size) + step(e.dtype, want)/2
	// Elementary functions may flush results that are too small to be normal.
	if least := smallestNormal(compute); want < least {
		b = max(b, least)
	}
	return b
}

// round rounds x to type d.
func round(d dtype.DType, x float64) float64 {
	if !d.IsFloat() {
		return x
	}
	return elem.Round(d, x)
}

func smallestNormal(d dtype.DType) float64 {
	if d == dtype.Float64 {
		return 0x1p-1022
	}
	return 0x1p-126
}

// step is the distance between neighboring numbers of type d at x.
func step(d dtype.DType, x float64) float64 {
	if math.IsInf(x, 0) {
		return math.NaN()
	}
	f := elem.OfFloat(d)
	if f == nil {
		f = elem.OfFloat(dtype.Float64)
	}
	return f.Step(x)
}
