// Package fourier computes discrete Fourier transforms of any length in float64: with
// gonum's mixed-radix transforms, and where a length has a large prime factor, for which
// they take time in proportion to its square, with Bluestein's convolution.
package fourier

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Plan transforms sequences of one length. One goroutine at a time may use it.
type Plan struct {
	n     int
	cmplx *fourier.CmplxFFT
	real  *fourier.FFT
	chirp *chirp
	line  []complex128 // of the detours
}

// largePrime is the prime factor from which a convolution is more accurate: the library's
// passes of other factors than 2, 3, 4 and 5 get their angles by a recurrence, which loses
// two digits at 47. From about 50 on it is faster, too.
const largePrime = 13

// plans are kept for a few lengths: their tables take longer than a transform.
var plans struct {
	sync.Mutex
	free map[int][]*Plan
	size int
}

// keptPlans is how much may be kept, in elements.
const keptPlans = 1 << 20

// Get returns a plan for length n ≥ 1. Put returns it for reuse.
func Get(n int) *Plan {
	plans.Lock()
	if l := plans.free[n]; len(l) > 0 {
		p := l[len(l)-1]
		plans.free[n] = l[:len(l)-1]
		plans.size -= n
		plans.Unlock()
		return p
	}
	plans.Unlock()
	return &Plan{n: n}
}

// Put returns a plan for reuse.
func Put(p *Plan) {
	plans.Lock()
	defer plans.Unlock()
	if plans.free == nil || plans.size+p.n > keptPlans {
		plans.free, plans.size = map[int][]*Plan{}, 0
	}
	if p.n <= keptPlans {
		plans.free[p.n] = append(plans.free[p.n], p)
		plans.size += p.n
	}
}

// Complex transforms x in place; with e^{+…} if inverse. Nothing is scaled.
func (p *Plan) Complex(x []complex128, inverse bool) {
	if p.n == 1 {
		return
	}
	if hasLargePrime(p.n) {
		if p.chirp == nil {
			p.chirp = newChirp(p.n)
		}
		p.chirp.transform(x, inverse)
		return
	}
	if p.cmplx == nil {
		p.cmplx = fourier.NewCmplxFFT(p.n)
	}
	if inverse {
		p.cmplx.Sequence(x, x)
	} else {
		p.cmplx.Coefficients(x, x)
	}
}

// Real writes the first n/2+1 numbers of x's transform to y.
func (p *Plan) Real(y []complex128, x []float64) {
	if hasLargePrime(p.n) {
		line := p.room()
		for i, v := range x {
			line[i] = complex(v, 0)
		}
		p.Complex(line, false)
		copy(y, line)
		y[0] = complex(real(y[0]), 0)
		if p.n%2 == 0 {
			y[p.n/2] = complex(real(y[p.n/2]), 0)
		}
		return
	}
	p.plan().Coefficients(y, x)
}

// Inverse writes the real numbers x whose transform begins with y, times n.
func (p *Plan) Inverse(x []float64, y []complex128) {
	if hasLargePrime(p.n) {
		line := p.room()
		line[0] = complex(real(y[0]), 0)
		for k := 1; k < len(y); k++ {
			line[k], line[p.n-k] = y[k], complex(real(y[k]), -imag(y[k]))
		}
		if p.n%2 == 0 {
			line[p.n/2] = complex(real(y[p.n/2]), 0)
		}
		p.Complex(line, true)
		for i := range x {
			x[i] = real(line[i])
		}
		return
	}
	p.plan().Sequence(x, y)
}

func (p *Plan) plan() *fourier.FFT {
	if p.real == nil {
		p.real = fourier.NewFFT(p.n)
	}
	return p.real
}

func (p *Plan) room() []complex128 {
	if p.line == nil {
		p.line = make([]complex128, p.n)
	}
	return p.line
}

func hasLargePrime(n int) bool {
	for f := 2; f < largePrime && n > 1; f++ {
		for n%f == 0 {
			n /= f
		}
	}
	return n > 1
}

// chirp is Bluestein's transform: with kt = (k² + t² - (k-t)²)/2 it is a convolution, of
// a length that suits the other algorithm.
type chirp struct {
	n, m   int
	factor []complex128 // e^{-πi·k²/n}
	kernel []complex128 // the transform of its conjugate, over m
	work   []complex128
	fft    *fourier.CmplxFFT
}

func newChirp(n int) *chirp {
	m := 1
	for m < 2*n-1 {
		m *= 2
	}
	c := &chirp{n: n, m: m, factor: make([]complex128, n), kernel: make([]complex128, m), work: make([]complex128, m), fft: fourier.NewCmplxFFT(m)}
	for k := range n {
		// The angle repeats after 2n: a large square would lose its digits.
		sin, cos := math.Sincos(math.Pi * float64(k*k%(2*n)) / float64(n))
		c.factor[k] = complex(cos, -sin)
		c.kernel[k] = complex(cos, sin)
		if k > 0 {
			c.kernel[m-k] = c.kernel[k]
		}
	}
	c.fft.Coefficients(c.kernel, c.kernel)
	for i := range c.kernel {
		c.kernel[i] /= complex(float64(m), 0)
	}
	return c
}

func (c *chirp) transform(x []complex128, inverse bool) {
	// The inverse is the conjugate of the transform of the conjugate.
	if inverse {
		conjugate(x)
	}
	clear(c.work[c.n:])
	for i, v := range x {
		c.work[i] = v * c.factor[i]
	}
	c.fft.Coefficients(c.work, c.work)
	for i := range c.work {
		c.work[i] *= c.kernel[i]
	}
	c.fft.Sequence(c.work, c.work)
	for i := range x {
		x[i] = c.work[i] * c.factor[i]
	}
	if inverse {
		conjugate(x)
	}
}

func conjugate(x []complex128) {
	for i, v := range x {
		x[i] = complex(real(v), -imag(v))
	}
}
