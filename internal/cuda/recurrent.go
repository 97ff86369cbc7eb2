//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.Recurrent] = (*Device).runRecurrent
	runners[op.RecurrentGrad] = (*Device).runRecurrentGrad
}

// The parameters of kernels/recurrent.cu.
type (
	cellParams struct {
		z, s, biasW, biasU, h, c, y, cell, last, hidden uintptr
		n                                               uint64
		size                                            uint32
		kind, keep, _                                   int32
	}
	cellGradParams struct {
		g, next, z, hidden, y, h, c, cell, lastC, toState, toInput, keep, cells uintptr
		n                                                                       uint64
		size                                                                    uint32
		kind                                                                    int32
	}
	firstStateParams struct {
		next, keep, cells, h, c uintptr
		n                       uint64
	}
)

// sequence is a call of Recurrent or RecurrentGrad, whose operands lie in order.
type sequence struct {
	op.Recurrence
	t                            dtype.DType
	l, n, in, h, rows            int // steps, batch, inputs, size of the state, gates·h
	x, h0, c0, w, u, out         uintptr
	biasW, biasU                 uintptr // 0 without
	gates, cells, hidden         uintptr // what is saved; hidden: a GRU's
	g                            uintptr
	results                      []uintptr
	room, end                    uintptr // the working memory that is left
	toState, toInput, next, keep uintptr // of the gradient; see cellGradParams
	dc                           uintptr
}

// newSequence lays a call out. need returns how much working memory it needs beside
// copies of operands that do not lie in order; the caller takes it with take.
func (d *Device) newSequence(c *backend.Call, need func(s *sequence) int) (*sequence, error) {
	s := &sequence{Recurrence: c.Attrs.(op.Recurrence), t: c.Out.DType}
	in := c.In
	grad := c.Op == op.RecurrentGrad
	if grad {
		in = in[1:]
	}
	x := in[0].Shape
	s.l, s.n, s.in, s.h = x[0], x[1], x[2], in[1].Shape[1]
	s.rows = s.Cell.Gates() * s.h
	size := need(s)
	for i := range c.In {
		if v := &c.In[i]; !v.Contiguous() {
			size += padded(v.Elements() * s.t.Size())
		}
	}
	var err error
	if s.room, err = d.statespace(size); err != nil {
		return nil, err
	}
	s.end = s.room + uintptr(size)
	at := make([]uintptr, len(c.In))
	for i := range c.In {
		v := &c.In[i]
		if at[i] = addr(v); !v.Contiguous() {
			at[i] = s.take(v.Elements())
			if err := d.copyView(v, at[i]); err != nil {
				return nil, err
			}
		}
	}
	if grad {
		s.g, at = at[0], at[1:]
	}
	cell, w, u, biasW, biasU, n := s.At()
	s.x, s.h0, s.w, s.u = at[0], at[1], at[w], at[u]
	if cell >= 0 {
		s.c0 = at[cell]
	}
	if s.Bias {
		s.biasW, s.biasU = at[biasW], at[biasU]
	}
	var saved []uintptr
	if grad {
		s.out, saved = at[n], at[n+1:]
		s.results = append(s.results, c.Out.Block.Addr)
		for i := range c.More {
			s.results = append(s.results, c.More[i].Block.Addr)
		}
	} else {
		s.out = c.Out.Block.Addr
		for i := range c.More {
			saved = append(saved, c.More[i].Block.Addr)
		}
	}
	if len(saved) == 2 {
		s.gates = saved[0]
		if s.Cell == op.LSTMCell {
			s.cells = saved[1]
		} else {
			s.hidden = saved[1]
		}
	}
	return s, nil
}

// take cuts room for n elements off the working memory.
func (s *sequence) take(n int) uintptr { return s.takeBytes(n * s.t.Size()) }

func (s *sequence) takeBytes(n int) uintptr {
	p := s.room
	if s.room += uintptr(padded(n)); s.room > s.end {
		panic("cuda: a recurrent op takes more working memory than it asked for")
	}
	return p
}

// step returns the place of step i, as the steps are taken, in a list of matrices with
// rows of the given width.
func (s *sequence) step(list uintptr, width, i int) uintptr {
	if s.Reverse {
		i = s.l - 1 - i
	}
	return list + uintptr(i*s.n*width*s.t.Size())
}

// before returns the state, or cell, before step i.
func (s *sequence) before(list, first uintptr, i int) uintptr {
	if i == 0 {
		return first
	}
	return s.step(list, s.h, i-1)
}

// multiply queues c = a·b: m×k by k×n.
func (d *Device) multiply(t dtype.DType, m, n, k int, a, b matrix, c uintptr) error {
	return d.gemm(t, &product{m: m, n: n, k: k, batch: 1, a: a, b: b, c: c})
}

// byRows and byColumns are operands that are stored in rows, or columns, of ld elements.
func byRows(addr uintptr, ld int) matrix    { return matrix{addr: addr, ld: ld} }
func byColumns(addr uintptr, ld int) matrix { return matrix{addr: addr, ld: ld, trans: true} }

func (d *Device) runRecurrent(c *backend.Call) error {
	save := len(c.More) > 0
	s, err := d.newSequence(c, func(s *sequence) int {
		size, state := 0, s.n*s.h*s.t.Size()
		if s.Cell.Gates() > 1 && !save {
			size += padded(s.l * s.n * s.rows * s.t.Size())
			if s.Cell == op.LSTMCell {
				size += padded(s.l * state)
			}
		}
		return size + padded(s.n*s.rows*s.t.Size())
	})
	if err != nil {
		return err
	}
	switch {
	case s.Cell.Gates() == 1:
		s.gates = s.out // there is one sum for each element of the state
	case !save:
		s.gates = s.take(s.l * s.n * s.rows)
		if s.Cell == op.LSTMCell {
			s.cells = s.take(s.l * s.n * s.h)
		}
	}
	fromState := s.take(s.n * s.rows)
	if err := d.multiply(s.t, s.l*s.n, s.rows, s.in, byRows(s.x, s.in), byColumns(s.w, s.in), s.gates); err != nil {
		return err
	}
	p := cellParams{s: fromState, biasW: s.biasW, biasU: s.biasU, n: uint64(s.n * s.h), size: uint32(s.h), kind: int32(s.Cell)}
	if save {
		p.keep = 1
	}
	k, err := d.kernel("recurrent", "cell_"+typeName(s.t))
	if err != nil {
		return err
	}
	for i := range s.l {
		p.h = s.before(s.out, s.h0, i)
		if err := d.multiply(s.t, s.n, s.rows, s.h, byRows(p.h, s.h), byColumns(s.u, s.h), fromState); err != nil {
			return err
		}
		p.z, p.y = s.step(s.gates, s.rows, i), s.step(s.out, s.h, i)
		switch s.Cell {
		case op.LSTMCell:
			p.c, p.cell = s.before(s.cells, s.c0, i), s.step(s.cells, s.h, i)
			if i == s.l-1 {
				p.last = s.out + uintptr(s.l*s.n*s.h*s.t.Size())
			}
		case op.GRUCell:
			if save {
				p.hidden = s.step(s.hidden, s.h, i)
			}
		}
		*paramsOf[cellParams](d, k) = p
		if err := d.launch(k, oneEach(s.n*s.h)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) runRecurrentGrad(c *backend.Call) error {
	s, err := d.newSequence(c, func(s *sequence) int {
		all, state, wide := s.l*s.n, s.n*s.h, max(4, s.t.Size())
		size := padded(all*s.rows*s.t.Size()) + padded(all*s.h*s.t.Size()) + padded(state*s.t.Size())
		switch s.Cell {
		case op.GRUCell:
			size += padded(all*s.rows*s.t.Size()) + padded(state*wide)
		case op.LSTMCell:
			size += padded(state * wide)
		}
		return size
	})
	if err != nil {
		return err
	}
	if s.n == 0 { // the weights' gradients are zeros, and the others empty
		for _, v := range append([]backend.View{c.Out}, c.More...) {
			if v.Elements() == 0 {
				continue
			}
			if err := d.fill(v.Block.Addr, s.t, 0, v.Elements()); err != nil {
				return err
			}
		}
		return nil
	}
	all, state, wide := s.l*s.n, s.n*s.h, max(4, s.t.Size())
	s.toState, s.next = s.take(all*s.rows), s.take(state)
	s.toInput = s.toState
	switch s.Cell {
	case op.GRUCell:
		s.toInput, s.keep = s.take(all*s.rows), s.takeBytes(state*wide)
	case op.LSTMCell:
		s.dc = s.takeBytes(state * wide)
	}
	if err := d.backThroughSteps(s); err != nil {
		return err
	}
	next := func() uintptr { r := s.results[0]; s.results = s.results[1:]; return r }
	before, err := d.statesBefore(s)
	if err != nil {
		return err
	}
	if err := d.multiply(s.t, s.rows, s.h, all, byColumns(s.toState, s.rows), byRows(before, s.h), next()); err != nil {
		return err
	}
	if err := d.multiply(s.t, s.rows, s.in, all, byColumns(s.toInput, s.rows), byRows(s.x, s.in), next()); err != nil {
		return err
	}
	if s.Bias {
		for _, z := range []uintptr{s.toInput, s.toState} {
			if err := d.columnSums(s.t, all, s.rows, z, next()); err != nil {
				return err
			}
		}
	}
	if s.GradX {
		if err := d.multiply(s.t, all, s.in, s.rows, byRows(s.toInput, s.rows), byRows(s.w, s.in), next()); err != nil {
			return err
		}
	}
	if !s.GradState {
		return nil
	}
	p := firstStateParams{next: s.next, keep: s.keep, cells: s.dc, h: next(), n: uint64(state)}
	if s.Cell == op.LSTMCell {
		p.c = next()
	}
	return runKernel(d, "recurrent", "first_state_"+typeName(s.t), &p, oneEach(state))
}

// backThroughSteps queues the gradients of what input and state contribute at each step.
func (d *Device) backThroughSteps(s *sequence) error {
	k, err := d.kernel("recurrent", "cell_grad_"+typeName(s.t))
	if err != nil {
		return err
	}
	p := cellGradParams{keep: s.keep, cells: s.dc, n: uint64(s.n * s.h), size: uint32(s.h), kind: int32(s.Cell)}
	for i := s.l - 1; i >= 0; i-- {
		p.g, p.y, p.h = s.step(s.g, s.h, i), s.step(s.out, s.h, i), s.before(s.out, s.h0, i)
		p.toState, p.toInput = s.step(s.toState, s.rows, i), s.step(s.toInput, s.rows, i)
		p.z, p.lastC = s.step(s.gates, s.rows, i), 0
		switch s.Cell {
		case op.LSTMCell:
			p.c, p.cell = s.before(s.cells, s.c0, i), s.step(s.cells, s.h, i)
			if i == s.l-1 {
				p.lastC = s.g + uintptr(s.l*s.n*s.h*s.t.Size())
			}
		case op.GRUCell:
			p.hidden = s.step(s.hidden, s.h, i)
		}
		*paramsOf[cellGradParams](d, k) = p
		if err := d.launch(k, oneEach(s.n*s.h)); err != nil {
			return err
		}
		if i == 0 && !s.GradState {
			break
		}
		if err := d.multiply(s.t, s.n, s.h, s.rows, byRows(p.toState, s.rows), byRows(s.u, s.h), s.next); err != nil {
			return err
		}
		p.next = s.next
	}
	return nil
}

// statesBefore queues a list of the states before each step, in the order of time.
func (d *Device) statesBefore(s *sequence) (uintptr, error) {
	list := s.take(s.l * s.n * s.h)
	size := s.n * s.h
	copyTo := func(to, from uintptr, n int) error { // to may be aligned to no more than an element
		v := backend.View{Block: blockAt(from), Shape: []int{n}, Strides: []int{1}, DType: s.t}
		return d.move(&v, to, v.Strides)
	}
	if err := copyTo(s.step(list, s.h, 0), s.h0, size); err != nil || s.l == 1 {
		return list, err
	}
	later, from := list+uintptr(size*s.t.Size()), s.out
	if s.Reverse {
		later, from = list, s.out+uintptr(size*s.t.Size())
	}
	return list, copyTo(later, from, (s.l-1)*size)
}

// columnSums queues the sums of a matrix's columns.
func (d *Device) columnSums(t dtype.DType, m, n int, from, to uintptr) error {
	return runners[op.Sum](d, &backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: op.AxesOf(0)},
		In:  []backend.View{{Block: blockAt(from), Shape: []int{m, n}, Strides: []int{n, 1}, DType: t}},
		Out: backend.View{Block: blockAt(to), Shape: []int{1, n}, Strides: []int{n, 1}, DType: t}})
}
