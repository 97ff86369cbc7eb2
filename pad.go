package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Pad puts low elements of value before and high after each axis: Pad(0, 1, 1, 2, 0)
// puts one zero on both sides of axis 0 and two before axis 1. Axes that are not
// named stay; negative amounts cut off.
func (t *Tensor) Pad(value float64, lowHigh ...int) *Tensor {
	t.check("Pad")
	if len(lowHigh)%2 != 0 || len(lowHigh) > 2*len(t.shape) {
		failf("Pad", ErrArgument, []*Tensor{t}, "takes two amounts per axis; got %d numbers for %d axes", len(lowHigh), len(t.shape))
	}
	a := op.Pad{Low: op.Dims{N: len(t.shape)}, High: op.Dims{N: len(t.shape)}, Interior: op.Dims{N: len(t.shape)}, Value: value}
	cut := make([]Range, len(t.shape))
	for i, n := range t.shape {
		cut[i] = All()
		if 2*i >= len(lowHigh) {
			continue
		}
		lo, hi := max(lowHigh[2*i], -n-1), max(lowHigh[2*i+1], -n-1) // -n-1 is refused below as all less are
		a.Low.D[i], a.High.D[i] = max(lo, 0), max(hi, 0)
		if lo < 0 || hi < 0 {
			from, to := max(-lo, 0), n-max(-hi, 0)
			if from > to {
				failf("Pad", ErrShape, []*Tensor{t}, "cannot cut %d and %d off axis %d of size %d", max(-lo, 0), max(-hi, 0), i, n)
			}
			cut[i] = R(from, to)
		}
	}
	return apply(op.Padded, a, t.Slice(cut...))
}

// PadMode says what [Tensor.PadWith] puts around a tensor.
type PadMode uint8

// The modes.
const (
	PadReflect   PadMode = iota // what lies behind the border element, mirrored: 2 1 | 0 1 2
	PadReplicate                // the border element again: 0 0 | 0 1 2
	PadCircular                 // what lies at the other end: 1 2 | 0 1 2
)

// PadWith puts elements of t itself before and after each axis: two amounts per
// axis, in order; axes that are not named stay. [Tensor.Pad] pads with a number.
func (t *Tensor) PadWith(mode PadMode, lowHigh ...int) *Tensor {
	in := []*Tensor{t}
	t.check("PadWith")
	if len(lowHigh)%2 != 0 || len(lowHigh) > 2*len(t.shape) {
		failf("PadWith", ErrArgument, in, "takes two amounts per axis; got %d numbers for %d axes", len(lowHigh), len(t.shape))
	}
	for a := range len(lowHigh) / 2 {
		lo, hi, n := lowHigh[2*a], lowHigh[2*a+1], t.shape[a]
		most := n // how much there is to put
		if mode == PadReflect {
			most = n - 1
		}
		if mode == PadReplicate && n > 0 {
			most = max(lo, hi)
		}
		if lo < 0 || hi < 0 || max(lo, hi) > max(most, 0) {
			failf("PadWith", ErrShape, in, "cannot put %d and %d elements around axis %d of size %d in this mode", lo, hi, a, n)
		}
		if lo == 0 && hi == 0 {
			continue
		}
		var before, after *Tensor
		switch mode {
		case PadReflect:
			before, after = t.Narrow(a, 1, 1+lo).Flip(a), t.Narrow(a, n-1-hi, n-1).Flip(a)
		case PadReplicate:
			size := t.Shape()
			size[a] = lo
			before = t.Narrow(a, 0, 1).expand(slices.Clone(size))
			size[a] = hi
			after = t.Narrow(a, n-1, n).expand(size)
		case PadCircular:
			before, after = t.Narrow(a, n-lo, n), t.Narrow(a, 0, hi)
		default:
			failf("PadWith", ErrArgument, in, "there is no mode %d", mode)
		}
		t = Concat(a, before, t, after)
	}
	return t
}
