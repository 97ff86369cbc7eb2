package cpu

import (
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/op"
)

// backward walks back through the steps, which computes the gradients of all sums,
// and ends with one product for each weight and for x.
func (s *sequence[T]) backward() {
	h, rows, all := s.h, s.rows, s.l*s.n
	toState := s.room(all * rows) // the gradients of what the state contributes to the gates
	toInput := toState
	if s.Cell == op.GRUCell {
		toInput = s.room(all * rows)
	}
	dh, dc := s.room(s.n*h), s.room(s.n*h) // of the state and the cell behind a step
	clear(dh)
	if s.Cell == op.LSTMCell {
		copy(dc, s.g[len(s.g)-len(dc):])
	}
	u := gemm.RowMajor(s.u, h)
	for i := s.l - 1; i >= 0 && s.n > 0; i-- {
		g, y, z, zi := s.at(s.g, h, i), s.at(s.out, h, i), s.at(toState, rows, i), s.at(toInput, rows, i)
		var ep gemm.Epilogue[T]
		switch s.Cell {
		case op.TanhCell, op.ReluCell:
			s.each(func(b int, _ []T) { s.rnnGrad(row(g, h, b), row(dh, h, b), row(y, h, b), row(z, h, b)) })
		case op.LSTMCell:
			gates, cell, last := s.at(s.gates, rows, i), s.at(s.cells, h, i), s.before(s.cells, s.c0, i)
			s.each(func(b int, buf []T) {
				s.lstmGrad(row(g, h, b), row(dh, h, b), row(dc, h, b), row(gates, rows, b), row(cell, h, b), row(last, h, b), row(z, rows, b), buf[:h])
			})
		case op.GRUCell:
			gates, hid, before := s.at(s.gates, rows, i), s.at(s.hid, h, i), s.before(s.out, s.h0, i)
			s.each(func(b int, _ []T) {
				s.gruGrad(row(g, h, b), row(dh, h, b), row(gates, rows, b), row(hid, h, b), row(before, h, b), row(z, rows, b), row(zi, rows, b))
			})
			ep.Beta = 1 // dh holds what passes the gates
		}
		if i > 0 || s.GradState {
			s.multiply(s.n, h, rows, gemm.RowMajor(z, rows), u, dh, h, &ep)
		}
	}

	results := s.results
	next := func() []T { r := results[0]; results = results[1:]; return r }
	s.stateWeight(next(), toState)
	s.multiply(rows, s.in, all, gemm.RowMajor(toInput, rows).T(), gemm.RowMajor(s.x, s.in), next(), s.in, nil)
	if s.Bias {
		ones := s.room(all)
		for i := range ones {
			ones[i] = 1
		}
		for _, z := range [][]T{toInput, toState} {
			s.multiply(1, rows, all, gemm.RowMajor(ones, all), gemm.RowMajor(z, rows), next(), rows, nil)
		}
	}
	if s.GradX {
		s.multiply(all, s.in, rows, gemm.RowMajor(toInput, rows), gemm.RowMajor(s.w, s.in), next(), s.in, nil)
	}
	if s.GradState {
		copy(next(), dh)
		if s.Cell == op.LSTMCell {
			copy(next(), dc)
		}
	}
}

// stateWeight makes the gradient of u: each step's sums with the state before it. The
// states of all steps but one lie together.
func (s *sequence[T]) stateWeight(to, z []T) {
	h, rows, size := s.h, s.rows, s.n*s.h
	first, later, states := s.at(z, rows, 0), z[s.n*rows:], s.out
	if s.Reverse {
		later, states = z, s.out[min(size, len(s.out)):]
	}
	s.multiply(rows, h, s.n, gemm.RowMajor(first, rows).T(), gemm.RowMajor(s.h0, h), to, h, nil)
	if s.l > 1 {
		s.multiply(rows, h, (s.l-1)*s.n, gemm.RowMajor(later, rows).T(), gemm.RowMajor(states, h), to, h, &gemm.Epilogue[T]{Beta: 1})
	}
}

func (s *sequence[T]) rnnGrad(g, dh, y, z []T) {
	dh, y, z = dh[:len(g)], y[:len(g)], z[:len(g)]
	if s.Cell == op.ReluCell {
		for j, v := range g {
			z[j] = 0
			if y[j] > 0 {
				z[j] = v + dh[j]
			}
		}
		return
	}
	for j, v := range g {
		z[j] = (v + dh[j]) * (1 - y[j]*y[j])
	}
}

func (s *sequence[T]) lstmGrad(g, dh, dc, gates, cell, last, z, tanh []T) {
	h := len(g)
	s.tanh(tanh, cell)
	dh, dc, last, tanh = dh[:h], dc[:h], last[:h], tanh[:h]
	gi, gf, gk, gout := gates[:h], gates[h:][:h], gates[2*h:][:h], gates[3*h:][:h]
	zi, zf, zk, zo := z[:h], z[h:][:h], z[2*h:][:h], z[3*h:][:h]
	for j, v := range g {
		v += dh[j]
		i, f, k, o, t := gi[j], gf[j], gk[j], gout[j], tanh[j]
		c := dc[j] + v*o*(1-t*t)
		zi[j] = c * k * i * (1 - i)
		zf[j] = c * last[j] * f * (1 - f)
		zk[j] = c * i * (1 - k*k)
		zo[j] = v * t * o * (1 - o)
		dc[j] = c * f
	}
}

// gruGrad leaves in dh what passes the gates.
func (s *sequence[T]) gruGrad(g, dh, gates, hid, before, z, toInput []T) {
	h := len(g)
	dh, hid, before = dh[:h], hid[:h], before[:h]
	gr, gz, gn := gates[:h], gates[h:][:h], gates[2*h:][:h]
	for j, v := range g {
		v += dh[j]
		r, u, n := gr[j], gz[j], gn[j]
		fresh := v * (1 - u) * (1 - n*n)
		reset := fresh * hid[j] * r * (1 - r)
		update := v * (before[j] - n) * u * (1 - u)
		z[j], z[h+j], z[2*h+j] = reset, update, fresh*r
		toInput[j], toInput[h+j], toInput[2*h+j] = reset, update, fresh
		dh[j] = v * u
	}
}
