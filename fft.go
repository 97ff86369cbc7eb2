package locus

import (
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Fourier transforms. There is no complex element type: a complex number is a pair,
// real and imaginary part, along a last axis of size 2. Axes are counted without it, so
// that -1 is the last axis of the signal. Float32 and float64 only: cast half precision
// first. On the CPU, float32 is computed in float64 and rounded once. Lengths are free;
// the fastest are products of 2, 3 and 5.

// FFTNorm says which direction of a Fourier transform divides by the number n of elements.
type FFTNorm uint8

// The conventions, named as in NumPy and PyTorch. The zero value is their default.
const (
	FFTBackward FFTNorm = iota // the inverse divides by n
	FFTOrtho                   // both divide by √n
	FFTForward                 // the transform divides by n, the inverse by nothing
)

// String returns the convention's name.
func (n FFTNorm) String() string {
	return op.EnumName("FFTNorm", int(n), "backward", "ortho", "forward")
}

// FFTOptions are the options of the Fourier transforms.
type FFTOptions struct {
	Axes []int   // of the signal, over which to transform; nil means the last
	Norm FFTNorm // which direction divides
	N    int     // IRFFT: the length of the result along the last of the axes; 0 means 2·(m-1), which is even
}

// FFT returns the discrete Fourier transform of complex numbers (…, 2), over one axis or
// several: Σ x(t)·e^(-2πi·kt/n), summed over t.
func (t *Tensor) FFT(o FFTOptions) *Tensor { return t.fourier("FFT", o, false) }

// IFFT returns the inverse of [Tensor.FFT].
func (t *Tensor) IFFT(o FFTOptions) *Tensor { return t.fourier("IFFT", o, true) }

// RFFT returns the Fourier transform of real numbers as complex ones, with a new last axis
// of 2. Because the other half mirrors it, the last of the axes, of size n, has only n/2+1
// numbers.
func (t *Tensor) RFFT(o FFTOptions) *Tensor {
	const name = "RFFT"
	t.check(name)
	axes := t.signalAxes(name, o, len(t.shape))
	if o.N != 0 {
		failf(name, ErrArgument, []*Tensor{t}, "N is an option of IRFFT; use Pad or Narrow to change a length")
	}
	last := axes[len(axes)-1]
	n := 1
	for _, a := range axes {
		n *= t.shape[a]
	}
	y := apply(op.RFFT, op.Fourier{Axis: last}, t)
	for _, a := range axes[:len(axes)-1] {
		y = y.then(apply(op.FFT, op.Fourier{Axis: a}, y))
	}
	return y.scaled(n, o.Norm, false)
}

// IRFFT returns the inverse of [Tensor.RFFT]: real numbers, without the last axis of 2.
// Set N if their number along the last of the axes is odd. The imaginary parts of the first
// numbers, and if N is even of the last, have no effect.
func (t *Tensor) IRFFT(o FFTOptions) *Tensor {
	const name = "IRFFT"
	t.check(name)
	axes := t.signalAxes(name, o, t.pairs(name))
	last := axes[len(axes)-1]
	m, length := t.shape[last], o.N
	if length == 0 {
		length = 2 * (m - 1)
	}
	if length < 1 || length/2+1 != m {
		fail(name, &op.Problem{Kind: ErrArgument, Msg: "axis " + itoa(last) + " has " + itoa(m) + " numbers, which is not half of " + itoa(length) + " and one more",
			Fix: "set N to " + itoa(max(1, 2*m-2)) + " or " + itoa(2*m-1)}, t)
	}
	n := length
	y := t
	for _, a := range axes[:len(axes)-1] {
		n *= t.shape[a]
		next := apply(op.FFT, op.Fourier{Axis: a, Inverse: true}, y)
		if y != t {
			y.then(next)
		}
		y = next
	}
	next := apply(op.IRFFT, op.Fourier{Axis: last, N: length}, y)
	if y != t {
		y.then(next)
	}
	return next.scaled(n, o.Norm, true)
}

func (t *Tensor) fourier(name string, o FFTOptions, inverse bool) *Tensor {
	t.check(name)
	axes := t.signalAxes(name, o, t.pairs(name))
	if o.N != 0 {
		failf(name, ErrArgument, []*Tensor{t}, "N is an option of IRFFT; use Pad or Narrow to change a length")
	}
	y, n := t, 1
	for _, a := range axes {
		n *= t.shape[a]
		next := apply(op.FFT, op.Fourier{Axis: a, Inverse: inverse}, y)
		if y != t {
			y.then(next)
		}
		y = next
	}
	return y.scaled(n, o.Norm, inverse)
}

// then frees t, of which next was just computed, unless a gradient will need it.
func (t *Tensor) then(next *Tensor) *Tensor {
	t.freeUnlessRecorded([]*Tensor{next})
	return next
}

// pairs checks that t holds complex numbers, and returns the rank of the signal.
func (t *Tensor) pairs(name string) int {
	r := len(t.shape)
	if r == 0 || t.shape[r-1] != 2 {
		fail(name, &op.Problem{Kind: ErrShape, Msg: "shape " + op.ShapeString(t.shape) + " has no last axis of 2, for real and imaginary parts",
			Fix: "stack them: locus.Stack(-1, re, im); of real numbers use RFFT"}, t)
	}
	return r - 1
}

// signalAxes returns the axes of the transform, at least one.
func (t *Tensor) signalAxes(name string, o FFTOptions, rank int) []int {
	if o.Norm > FFTForward {
		failf(name, ErrArgument, []*Tensor{t}, "unknown norm %s", o.Norm)
	}
	given := o.Axes
	if len(given) == 0 {
		given = []int{-1}
	}
	var axes []int
	for _, a := range given {
		axis, err := op.ResolveAxis(a, rank)
		if err != nil {
			fail(name, err, t)
		}
		if slices.Contains(axes, axis) {
			failf(name, ErrAxis, []*Tensor{t}, "axis %d is named twice", a)
		}
		if t.shape[axis] == 0 {
			failf(name, ErrShape, []*Tensor{t}, "axis %d of shape %s is empty: there is nothing to transform", axis, op.ShapeString(t.shape))
		}
		axes = append(axes, axis)
	}
	return axes
}

// scaled divides a new tensor as the convention says.
func (t *Tensor) scaled(n int, norm FFTNorm, inverse bool) *Tensor {
	by := 1.0
	switch {
	case norm == FFTOrtho:
		by = 1 / math.Sqrt(float64(n))
	case inverse == (norm == FFTBackward):
		by = 1 / float64(n)
	}
	if by == 1 {
		return t
	}
	return t.then(t.Mul(by))
}

// ComplexMul returns the products of complex numbers (…, 2). Shapes broadcast.
func ComplexMul(x, y *Tensor) *Tensor {
	const name = "ComplexMul"
	checkOperands(name, []*Tensor{x, y})
	x.pairs(name)
	y.pairs(name)
	defer naming(name, []*Tensor{x, y})
	a, b, c, d := x.part(0), x.part(1), y.part(0), y.part(1)
	return Stack(-1, a.Mul(c).Sub(b.Mul(d)), a.Mul(d).Add(b.Mul(c)))
}

// part returns the real (0) or imaginary (1) parts.
func (t *Tensor) part(i int) *Tensor {
	last := len(t.shape) - 1
	return t.Narrow(last, i, i+1).Squeeze(last)
}

// ComplexAbs returns the absolute values of complex numbers (…, 2), without the last
// axis. The gradient at 0 is 0.
func ComplexAbs(x *Tensor) *Tensor {
	x.check("ComplexAbs")
	x.pairs("ComplexAbs")
	return x.Norm(-1)
}

// Fourier transforms are linear: the gradient of each is its transpose, another one.
func init() {
	gradients[op.FFT] = func(n *node, g *Tensor) []*Tensor {
		a := n.attrs.(op.Fourier)
		a.Inverse = !a.Inverse
		return []*Tensor{apply(op.FFT, a, g)}
	}
	gradients[op.RFFT] = func(n *node, g *Tensor) []*Tensor {
		a, x := n.attrs.(op.Fourier), n.inputs[0]
		a.N = x.shape[a.Axis]
		return []*Tensor{apply(op.IRFFT, a, g.Mul(halfWeights(g, a, 0.5)))}
	}
	gradients[op.IRFFT] = func(n *node, g *Tensor) []*Tensor {
		a := n.attrs.(op.Fourier)
		y := apply(op.RFFT, op.Fourier{Axis: a.Axis}, g)
		return []*Tensor{y.Mul(halfWeights(y, a, 2))}
	}
}

// halfWeights returns, to multiply half a spectrum by, value for the numbers that stand
// for their mirror images too, and 1 for the others: the first, and the last if the
// length is even.
func halfWeights(half *Tensor, a op.Fourier, value float64) *Tensor {
	m := half.shape[a.Axis]
	alone := 1
	if a.N%2 == 0 {
		alone = 2
	}
	w := half.beside(half.place.device.As(half.dtype).Full(value, m-alone)).Pad(1, 1, alone-1)
	shape := slices.Repeat([]int{1}, len(half.shape)-a.Axis)
	shape[0] = m
	return w.reshape(shape)
}
