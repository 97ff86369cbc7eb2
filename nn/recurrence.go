package nn

import "github.com/locusml/locus"

// recurrence is one kind of recurrent network: what one cell does with a
// sequence.
//
// What the inputs contribute to the gates is one product for all steps. The
// steps themselves are one op with a gradient of its own: recording each step
// would make the gradient of every step's slice as large as the sequence. The
// gradient finds all gates again from the states, in one product, walks back
// through the steps, and ends with one product for the weights. It is written
// with tensor ops, so that it has gradients itself.
type recurrence interface {
	name() string
	gates() int
	hasCell() bool
	// scan reads x (L, N, in) from state h and cell c (N, hidden), c nil where there
	// is none, and gives the states (L, N, hidden) and the last state and cell.
	scan(w *RecurrentCell, x, h, c *locus.Tensor) (y, lastH, lastC *locus.Tensor)
}

// before gives the states before each step: first, then all but the last.
func before(first, states *locus.Tensor) *locus.Tensor {
	return locus.Concat(0, first.Unsqueeze(0), states.Narrow(0, 0, states.Dim(0)-1))
}

// weightGradient gives the gradient of U in s·Uᵀ, for gradients g (L, N, rows) and
// states s (L, N, hidden).
func weightGradient(g, s *locus.Tensor) *locus.Tensor {
	return g.Reshape(-1, g.Dim(2)).T().MatMul(s.Reshape(-1, s.Dim(2)))
}

// simpleRecurrence is h' = tanh(x + U·h), or with max(·, 0).
type simpleRecurrence struct{ relu bool }

func (simpleRecurrence) name() string  { return "RNN" }
func (simpleRecurrence) gates() int    { return 1 }
func (simpleRecurrence) hasCell() bool { return false }

func (r simpleRecurrence) scan(w *RecurrentCell, x, h, _ *locus.Tensor) (y, lastH, lastC *locus.Tensor) {
	p := locus.Linear(x, w.WeightIH.Value(), w.bias(x))
	y = locus.Custom("RNN", r.forward, r.backward, p, h, w.WeightHH.Value())
	return y, y.Index(-1), nil
}

func (r simpleRecurrence) forward(in ...*locus.Tensor) *locus.Tensor {
	p, h, u := in[0], in[1], in[2].T()
	states := make([]*locus.Tensor, p.Dim(0))
	for t := range states {
		z := p.Index(t).Add(h.MatMul(u))
		if r.relu {
			h = z.Relu()
		} else {
			h = z.Tanh()
		}
		states[t] = h
	}
	return locus.Stack(0, states...)
}

func (r simpleRecurrence) backward(in []*locus.Tensor, states, g *locus.Tensor) []*locus.Tensor {
	h0, u := in[1], in[2]
	var slope *locus.Tensor
	if r.relu {
		slope = states.Gt(0).Cast(states.DType())
	} else {
		slope = states.Square().Neg().Add(1)
	}
	n := states.Dim(0)
	dz := make([]*locus.Tensor, n)
	var next *locus.Tensor
	for t := n - 1; t >= 0; t-- {
		dz[t] = plus(g.Index(t), next).Mul(slope.Index(t))
		next = dz[t].MatMul(u)
	}
	all := locus.Stack(0, dz...)
	return []*locus.Tensor{all, next, weightGradient(all, before(h0, states))}
}

// lstmRecurrence has the gates input, forget, cell, output.
type lstmRecurrence struct{}

func (lstmRecurrence) name() string  { return "LSTM" }
func (lstmRecurrence) gates() int    { return 4 }
func (lstmRecurrence) hasCell() bool { return true }

func (r lstmRecurrence) scan(w *RecurrentCell, x, h, c *locus.Tensor) (y, lastH, lastC *locus.Tensor) {
	p := locus.Linear(x, w.WeightIH.Value(), w.bias(x))
	both := locus.Custom("LSTM", r.forward, r.backward, p, h, c, w.WeightHH.Value())
	y = both.Index(0)
	return y, y.Index(-1), both.Index(1).Index(-1)
}

// forward gives states and cells, (2, L, N, hidden).
func (lstmRecurrence) forward(in ...*locus.Tensor) *locus.Tensor {
	p, h, c, u := in[0], in[1], in[2], in[3].T()
	n, size := p.Dim(0), h.Dim(1)
	states, cells := make([]*locus.Tensor, n), make([]*locus.Tensor, n)
	for t := range n {
		z := p.Index(t).Add(h.MatMul(u))
		both := z.Narrow(1, 0, 2*size).Sigmoid() // input and forget
		c = both.Narrow(1, size, 2*size).Mul(c).Add(both.Narrow(1, 0, size).Mul(z.Narrow(1, 2*size, 3*size).Tanh()))
		h = z.Narrow(1, 3*size, 4*size).Sigmoid().Mul(c.Tanh())
		states[t], cells[t] = h, c
	}
	return locus.Stack(0, append(states, cells...)...).Reshape(2, n, h.Dim(0), size)
}

func (lstmRecurrence) backward(in []*locus.Tensor, result, g *locus.Tensor) []*locus.Tensor {
	p, h0, c0, u := in[0], in[1], in[2], in[3]
	states, cells := result.Index(0), result.Index(1)
	gh, gc := g.Index(0), g.Index(1)
	hBefore, cBefore := before(h0, states), before(c0, cells)
	gate := p.Add(hBefore.MatMul(u.T())).Chunk(4, 2)
	i, f, k, o := gate[0].Sigmoid(), gate[1].Sigmoid(), gate[2].Tanh(), gate[3].Sigmoid()
	tc := cells.Tanh()
	// What a change of the cell, and of the state, does to each gate.
	cellTo := locus.Stack(2, k.Mul(slopeOfSigmoid(i)), cBefore.Mul(slopeOfSigmoid(f)), i.Mul(slopeOfTanh(k))) // (L, N, 3, hidden)
	stateToOutput := tc.Mul(slopeOfSigmoid(o))
	stateToCell := o.Mul(slopeOfTanh(tc))

	n, batch, size := states.Dim(0), states.Dim(1), states.Dim(2)
	dz := make([]*locus.Tensor, n)
	var nextH, nextC *locus.Tensor
	for t := n - 1; t >= 0; t-- {
		dh := plus(gh.Index(t), nextH)
		dc := plus(gc.Index(t), nextC).Add(dh.Mul(stateToCell.Index(t)))
		dz[t] = locus.Concat(1, cellTo.Index(t).Mul(dc.Unsqueeze(1)).Reshape(batch, 3*size), dh.Mul(stateToOutput.Index(t)))
		nextH, nextC = dz[t].MatMul(u), dc.Mul(f.Index(t))
	}
	all := locus.Stack(0, dz...)
	return []*locus.Tensor{all, nextH, nextC, weightGradient(all, hBefore)}
}

// gruRecurrence has the gates reset, update, new.
type gruRecurrence struct{}

func (gruRecurrence) name() string  { return "GRU" }
func (gruRecurrence) gates() int    { return 3 }
func (gruRecurrence) hasCell() bool { return false }

func (r gruRecurrence) scan(w *RecurrentCell, x, h, _ *locus.Tensor) (y, lastH, lastC *locus.Tensor) {
	p := locus.Linear(x, w.WeightIH.Value(), w.BiasIH.valueOrNil())
	in := []*locus.Tensor{p, h, w.WeightHH.Value()}
	if b := w.BiasHH.valueOrNil(); b != nil { // the reset gate works on the sum with it: it cannot join the other
		in = append(in, b)
	}
	y = locus.Custom("GRU", r.forward, r.backward, in...)
	return y, y.Index(-1), nil
}

func (gruRecurrence) forward(in ...*locus.Tensor) *locus.Tensor {
	p, h := in[0], in[1]
	size := h.Dim(1)
	states := make([]*locus.Tensor, p.Dim(0))
	for t := range states {
		x, s := p.Index(t), stateGates(h, in)
		both := x.Narrow(1, 0, 2*size).Add(s.Narrow(1, 0, 2*size)).Sigmoid() // reset and update
		fresh := x.Narrow(1, 2*size, 3*size).Add(both.Narrow(1, 0, size).Mul(s.Narrow(1, 2*size, 3*size))).Tanh()
		h = fresh.Add(both.Narrow(1, size, 2*size).Mul(h.Sub(fresh)))
		states[t] = h
	}
	return locus.Stack(0, states...)
}

// stateGates gives what states contribute to the gates.
func stateGates(h *locus.Tensor, in []*locus.Tensor) *locus.Tensor {
	var bias *locus.Tensor
	if len(in) == 4 {
		bias = in[3]
	}
	return locus.Linear(h, in[2], bias)
}

func (gruRecurrence) backward(in []*locus.Tensor, states, g *locus.Tensor) []*locus.Tensor {
	u := in[2]
	hBefore := before(in[1], states)
	x, s := in[0].Chunk(3, 2), stateGates(hBefore, in).Chunk(3, 2)
	r, z := x[0].Add(s[0]).Sigmoid(), x[1].Add(s[1]).Sigmoid()
	k := x[2].Add(r.Mul(s[2])).Tanh()
	// What a change of the state does to each gate.
	toNew := z.Neg().Add(1).Mul(slopeOfTanh(k))
	toReset := toNew.Mul(s[2]).Mul(slopeOfSigmoid(r))
	toUpdate := hBefore.Sub(k).Mul(slopeOfSigmoid(z))
	to := locus.Stack(2, toReset, toUpdate, toNew.Mul(r)) // (L, N, 3, hidden)

	n, batch, size := states.Dim(0), states.Dim(1), states.Dim(2)
	ds, dh := make([]*locus.Tensor, n), make([]*locus.Tensor, n)
	var next *locus.Tensor
	for t := n - 1; t >= 0; t-- {
		dh[t] = plus(g.Index(t), next)
		ds[t] = to.Index(t).Mul(dh[t].Unsqueeze(1)).Reshape(batch, 3*size)
		next = ds[t].MatMul(u).Add(dh[t].Mul(z.Index(t)))
	}
	fromState := locus.Stack(0, ds...)
	fromInput := locus.Concat(2, fromState.Narrow(2, 0, 2*size), locus.Stack(0, dh...).Mul(toNew))
	grads := []*locus.Tensor{fromInput, next, weightGradient(fromState, hBefore)}
	if len(in) == 4 {
		grads = append(grads, fromState.Sum(0, 1))
	}
	return grads
}

// bias gives the sum of both biases, nil without, for a step with x.
func (c *RecurrentCell) bias(x *locus.Tensor) *locus.Tensor {
	if c.BiasIH == nil {
		return nil
	}
	return beside(x, c.BiasIH.Value().Add(c.BiasHH.Value()))
}

// plus adds what came from the step behind, nil for the last.
func plus(g, next *locus.Tensor) *locus.Tensor {
	if next == nil {
		return g
	}
	return g.Add(next)
}

// Derivatives by the functions' results.
func slopeOfSigmoid(s *locus.Tensor) *locus.Tensor { return s.Mul(s.Neg().Add(1)) }
func slopeOfTanh(t *locus.Tensor) *locus.Tensor    { return t.Square().Neg().Add(1) }
