package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// Recurrent networks. What the inputs contribute to the gates is one product for all
// steps; a step is a product with the state and one pass over the gates. Half-precision types
// are computed in float32, by the composition.

func init() {
	f32 := &cellMath[float32]{gemm.F32, vec.AddF32, vec.SubF32, vec.MulF32, vec.FmaF32, vec.SigmoidF32, vec.TanhF32, vec.ReluF32}
	f64 := &cellMath[float64]{gemm.F64, vec.AddF64, vec.SubF64, vec.MulF64, vec.FmaF64, vec.SigmoidF64, vec.TanhF64, vec.ReluF64}
	register(op.Recurrent, dtype.Float32, recurrentKernel(f32, (*sequence[float32]).forward))
	register(op.Recurrent, dtype.Float64, recurrentKernel(f64, (*sequence[float64]).forward))
	register(op.RecurrentGrad, dtype.Float32, recurrentKernel(f32, (*sequence[float32]).backward))
	register(op.RecurrentGrad, dtype.Float64, recurrentKernel(f64, (*sequence[float64]).backward))
}

// cellMath is what cells are computed with.
type cellMath[T gemm.Float] struct {
	multiply            gemmOf[T, T]
	add, sub, mul       func(dst, a, b []T)
	fma                 func(dst, a, b, c []T) // a·b + c
	sigmoid, tanh, relu func(dst, a []T)
}

// sequence is a call.
type sequence[T gemm.Float] struct {
	*cellMath[T]
	op.Recurrence
	l, n, in, h, rows      int // steps, batch, inputs, size of the state, gates·h
	x, h0, c0, w, u        []T
	biasW, biasU           []T // nil without
	out, gates, cells, hid []T // hid: what the state contributes to a GRU's last gate
	g                      []T // gradient
	results                [][]T
	copies                 []*scratch
}

func recurrentKernel[T gemm.Float](m *cellMath[T], run func(*sequence[T])) kernel {
	return func(c *backend.Call) error {
		s := newSequence(m, c)
		run(s)
		release(s.copies...)
		return nil
	}
}

func newSequence[T gemm.Float](m *cellMath[T], c *backend.Call) *sequence[T] {
	s := &sequence[T]{cellMath: m, Recurrence: c.Attrs.(op.Recurrence)}
	in := c.In
	dense := func(v *backend.View) []T {
		if v.Elements() == 0 {
			return nil
		}
		d, r := denseOf[T](v)
		s.copies = append(s.copies, r)
		return d
	}
	grad := c.Op == op.RecurrentGrad
	if grad {
		s.g, in = dense(&in[0]), in[1:]
	}
	x := &in[0]
	s.l, s.n, s.in, s.h = x.Shape[0], x.Shape[1], x.Shape[2], in[1].Shape[1]
	s.rows = s.Cell.Gates() * s.h
	cell, w, u, biasW, biasU, count := s.At()
	s.x, s.h0, s.w, s.u = dense(x), dense(&in[1]), dense(&in[w]), dense(&in[u])
	if cell >= 0 {
		s.c0 = dense(&in[cell])
	}
	if s.Bias && !grad {
		s.biasW, s.biasU = dense(&in[biasW]), dense(&in[biasU])
	}
	rest := c.More // what is saved
	result := elements[T](&c.Out, c.Out.Elements())
	if grad {
		rest = in[count+1:]
		s.out = dense(&in[count])
		s.results = append(s.results, result)
		for i := range c.More {
			s.results = append(s.results, elements[T](&c.More[i], c.More[i].Elements()))
		}
	} else {
		s.out = result
	}
	saved := func(i, width int) []T {
		switch {
		case grad:
			return dense(&rest[i])
		case len(rest) > 0:
			return elements[T](&rest[i], rest[i].Elements())
		}
		return s.room(s.l * s.n * width)
	}
	switch s.Cell {
	case op.LSTMCell:
		s.gates, s.cells = saved(0, s.rows), saved(1, s.h)
	case op.GRUCell:
		s.gates, s.hid = saved(0, s.rows), saved(1, s.h)
	}
	return s
}

// room borrows memory until the call ends.
func (s *sequence[T]) room(n int) []T {
	r, buf := scratchOf[T](n)
	s.copies = append(s.copies, r)
	return buf
}

// step returns step i's place in time, as the steps are taken.
func (s *sequence[T]) step(i int) int {
	if s.Reverse {
		return s.l - 1 - i
	}
	return i
}

// before returns what a list of states has before step i, which begins with first.
func (s *sequence[T]) before(states, first []T, i int) []T {
	if i == 0 {
		return first
	}
	return s.at(states, s.h, i-1)
}

// at returns step i's part of a list with rows of the given width.
func (s *sequence[T]) at(list []T, width, i int) []T {
	size := s.n * width
	return list[s.step(i)*size:][:size]
}

// each runs f for every row of the batch, several at a time. Each has room for two
// states.
func (s *sequence[T]) each(f func(b int, buf []T)) {
	pool.For(s.n, max(1, grainExpensive/s.rows), func(lo, hi int) {
		r, buf := scratchOf[T](2 * s.h)
		for b := lo; b < hi; b++ {
			f(b, buf)
		}
		r.free()
	})
}

// row returns row b of a matrix with the given width.
func row[T any](m []T, width, b int) []T { return m[b*width:][:width] }

func (s *sequence[T]) forward() {
	if s.n == 0 {
		return
	}
	gates, h, gru := s.gates, s.h, s.Cell == op.GRUCell
	if s.Cell.Gates() == 1 {
		gates = s.out // there is one sum for each element of the state
	}
	var ep gemm.Epilogue[T]
	if s.Bias {
		ep.Bias = s.room(s.rows)
		s.add(ep.Bias, s.biasW, s.biasU)
		if gru { // the reset gate works on the sum of the state's part alone
			copy(ep.Bias[2*h:], s.biasW[2*h:])
		}
	}
	s.multiply(s.l*s.n, s.rows, s.in, gemm.RowMajor(s.x, s.in), gemm.RowMajor(s.w, s.in).T(), gates, s.rows, &ep)
	u := gemm.RowMajor(s.u, h).T()
	var fromState []T
	if gru {
		fromState = s.room(s.n * s.rows)
	}
	for i := range s.l {
		before := s.before(s.out, s.h0, i)
		z := s.at(gates, s.rows, i)
		if gru {
			s.multiply(s.n, s.rows, h, gemm.RowMajor(before, h), u, fromState, s.rows, nil)
		} else {
			s.multiply(s.n, s.rows, h, gemm.RowMajor(before, h), u, z, s.rows, &gemm.Epilogue[T]{Beta: 1})
		}
		y := s.at(s.out, h, i)
		switch s.Cell {
		case op.TanhCell:
			s.each(func(b int, _ []T) { s.tanh(row(y, h, b), row(y, h, b)) })
		case op.ReluCell:
			s.each(func(b int, _ []T) { s.relu(row(y, h, b), row(y, h, b)) })
		case op.LSTMCell:
			last, now := s.before(s.cells, s.c0, i), s.at(s.cells, h, i)
			s.each(func(b int, buf []T) { s.lstm(row(z, s.rows, b), row(last, h, b), row(now, h, b), row(y, h, b), buf) })
		case op.GRUCell:
			hid := s.at(s.hid, h, i)
			s.each(func(b int, _ []T) {
				s.gru(row(z, s.rows, b), row(fromState, s.rows, b), row(hid, h, b), row(before, h, b), row(y, h, b))
			})
		}
	}
	if s.Cell == op.LSTMCell {
		copy(s.out[s.l*s.n*h:], s.at(s.cells, h, s.l-1))
	}
}

// lstm makes gates of a row of sums, and the next cell and state.
func (s *sequence[T]) lstm(z, last, cell, y, buf []T) {
	h := s.h
	s.sigmoid(z[:2*h], z[:2*h])
	s.tanh(z[2*h:3*h], z[2*h:3*h])
	s.sigmoid(z[3*h:], z[3*h:])
	t := buf[:h]
	s.mul(t, z[:h], z[2*h:3*h])
	s.fma(cell, z[h:2*h], last, t)
	s.tanh(t, cell)
	s.mul(y, z[3*h:], t)
}

// gru makes gates of a row of sums and of what the state contributes, and the next state.
func (s *sequence[T]) gru(z, fromState, hid, before, y []T) {
	h := s.h
	s.add(z[:2*h], z[:2*h], fromState[:2*h])
	s.sigmoid(z[:2*h], z[:2*h])
	if s.Bias {
		s.add(hid, fromState[2*h:], s.biasU[2*h:])
	} else {
		copy(hid, fromState[2*h:])
	}
	fresh := z[2*h:]
	s.fma(fresh, z[:h], hid, fresh)
	s.tanh(fresh, fresh)
	s.sub(y, before, fresh)
	s.fma(y, z[h:2*h], y, fresh)
}
