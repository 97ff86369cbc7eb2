package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/fourier"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Fourier transforms. Float32 is computed in float64 and rounded once.

func init() {
	registerSignals(op.FFT, func(p *fourier.Plan, a op.Fourier, l *signal) {
		p.Complex(l.pairs, a.Inverse)
	})
	registerSignals(op.RFFT, func(p *fourier.Plan, _ op.Fourier, l *signal) { p.Real(l.pairs, l.reals) })
	registerSignals(op.IRFFT, func(p *fourier.Plan, _ op.Fourier, l *signal) { p.Inverse(l.reals, l.pairs) })
}

// signal is one line along the axis, as complex numbers, real ones or both.
type signal struct {
	pairs []complex128
	reals []float64
}

func registerSignals(id op.ID, f func(*fourier.Plan, op.Fourier, *signal)) {
	register(id, dtype.Float32, overSignals[float32](f))
	register(id, dtype.Float64, overSignals[float64](f))
}

func overSignals[T float](f func(*fourier.Plan, op.Fourier, *signal)) kernel {
	return func(c *backend.Call) error {
		if c.Out.Elements() == 0 {
			return nil
		}
		a, v := c.Attrs.(op.Fourier), &c.In[0]
		from, to := newSide(v, a.Axis, c.Op != op.RFFT), newSide(&c.Out, a.Axis, c.Op != op.IRFFT)
		n := from.n // the transform's length
		if c.Op == op.IRFFT {
			n = to.n
		}
		src, dst := whole[T](v), elements[T](&c.Out, c.Out.Elements())
		pool.For(from.lines, max(1, grainExpensive/(8*n)), func(lo, hi int) {
			p := fourier.Get(n)
			l := from.room(to)
			for i := lo; i < hi; i++ {
				get(l, &from, src, i)
				f(p, a, l)
				put(l, &to, dst, i)
			}
			fourier.Put(p)
		})
		return nil
	}
}

// side is how the lines of an operand or a result lie.
type side struct {
	offset, along, pair int // pair: from the real to the imaginary part
	complex             bool
	n, lines            int
	outer               dims
	strides             [op.MaxRank]int
}

func newSide(v *backend.View, axis int, isComplex bool) side {
	s := side{offset: v.Offset, along: v.Strides[axis], n: v.Shape[axis], complex: isComplex, lines: 1}
	r := len(v.Shape)
	if isComplex {
		r--
		s.pair = v.Strides[r]
	}
	s.outer.rank = r
	for i := range r {
		s.outer.shape[i], s.strides[i] = v.Shape[i], v.Strides[i]
		if i == axis {
			s.outer.shape[i] = 1
		}
		s.lines *= s.outer.shape[i]
	}
	return s
}

// room returns memory for the lines of both sides.
func (s *side) room(to side) *signal {
	l := &signal{}
	for _, x := range []*side{s, &to} {
		if x.complex {
			l.pairs = make([]complex128, x.n)
		} else {
			l.reals = make([]float64, x.n)
		}
	}
	return l
}

// at returns where line i begins.
func (s *side) at(i int) int {
	var index [op.MaxRank]int
	s.outer.at(i, &index)
	return s.offset + dot(&index, &s.strides, s.outer.rank)
}

func get[T float](l *signal, s *side, src []T, i int) {
	at := s.at(i)
	for k := range s.n {
		if s.complex {
			l.pairs[k] = complex(float64(src[at]), float64(src[at+s.pair]))
		} else {
			l.reals[k] = float64(src[at])
		}
		at += s.along
	}
}

func put[T float](l *signal, s *side, dst []T, i int) {
	at := s.at(i)
	for k := range s.n {
		if s.complex {
			dst[at], dst[at+s.pair] = T(real(l.pairs[k])), T(imag(l.pairs[k]))
		} else {
			dst[at] = T(l.reals[k])
		}
		at += s.along
	}
}
