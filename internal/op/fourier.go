package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Fourier is the attribute of the Fourier transforms.
type Fourier struct {
	Axis    int  // the axis to transform; never the last one of complex operands
	Inverse bool // FFT: e^{+…} instead of e^{-…}
	N       int  // IRFFT: the length of the result
}

// Complex numbers are pairs, real and imaginary part, along a last axis of size 2.
// Nothing is scaled: that is for package locus.
func init() {
	f := []dtype.Set{Wide}
	define(Def{ID: FFT, Name: "fft", Attrs: Fourier{}, Family: FourierFamily, Arity: 1, DTypes: f,
		Doc: "the discrete Fourier transform along the axis, Σ x[t]·e^{-2πi·kt/n}, or with + if inverse; unscaled; complex numbers are pairs in a last axis of 2",
		Infer: func(attrs Attrs, in []Spec) (Spec, error) {
			a, err := fourierOf("fft", attrs)
			if err == nil {
				err = checkPairs(in[0], a.Axis)
			}
			return in[0], err
		}})
	define(Def{ID: RFFT, Name: "rfft", Attrs: Fourier{}, Family: FourierFamily, Arity: 1, DTypes: f,
		Doc: "the first n/2+1 numbers of the Fourier transform of real numbers, as pairs in a new last axis; unscaled",
		Infer: func(attrs Attrs, in []Spec) (Spec, error) {
			a, err := fourierOf("rfft", attrs)
			if err != nil {
				return Spec{}, err
			}
			s := in[0].Shape
			if a.Axis < 0 || a.Axis >= len(s) {
				return Spec{}, Problemf(ErrAxis, "axis %d of shape %s", a.Axis, ShapeString(s))
			}
			if s[a.Axis] == 0 {
				return Spec{}, Problemf(ErrShape, "axis %d of shape %s is empty: there is nothing to transform", a.Axis, ShapeString(s))
			}
			out := append(slices.Clone(s), 2)
			out[a.Axis] = s[a.Axis]/2 + 1
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
	define(Def{ID: IRFFT, Name: "irfft", Attrs: Fourier{}, Family: FourierFamily, Arity: 1, DTypes: f,
		Doc: "the n real numbers whose Fourier transform begins with the given n/2+1 numbers, times n; the imaginary parts of the first, and for even n of the last, are not read",
		Infer: func(attrs Attrs, in []Spec) (Spec, error) {
			a, err := fourierOf("irfft", attrs)
			if err == nil {
				err = checkPairs(in[0], a.Axis)
			}
			if err != nil {
				return Spec{}, err
			}
			s := in[0].Shape
			if a.N < 1 || a.N/2+1 != s[a.Axis] {
				return Spec{}, Problemf(ErrArgument, "axis %d of shape %s has %d numbers; a result of length %d wants %d", a.Axis, ShapeString(s), s[a.Axis], a.N, a.N/2+1)
			}
			out := slices.Clone(s[:len(s)-1])
			out[a.Axis] = a.N
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
}

func fourierOf(name string, attrs Attrs) (Fourier, error) {
	a, ok := attrs.(Fourier)
	if !ok {
		return a, attrError(name, attrs)
	}
	return a, nil
}

// checkPairs checks a complex operand.
func checkPairs(s Spec, axis int) error {
	r := len(s.Shape)
	if r == 0 || s.Shape[r-1] != 2 {
		return &Problem{Kind: ErrShape, Msg: "shape " + ShapeString(s.Shape) + " has no last axis of 2, for real and imaginary parts",
			Fix: "stack them: locus.Stack(-1, re, im)"}
	}
	if axis < 0 || axis >= r-1 {
		return Problemf(ErrAxis, "axis %d of shape %s, whose last axis is real and imaginary parts", axis, ShapeString(s.Shape))
	}
	if s.Shape[axis] == 0 {
		return Problemf(ErrShape, "axis %d of shape %s is empty: there is nothing to transform", axis, ShapeString(s.Shape))
	}
	return nil
}
