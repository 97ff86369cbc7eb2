package locus

import "github.com/locusml/locus/internal/op"

// CellWeights are the parameters of a recurrent cell, laid out as PyTorch's: for
// g gates and a state of size H, the gates lie one after the other.
type CellWeights struct {
	Input      *Tensor // (g·H, in): from the input
	Hidden     *Tensor // (g·H, H): from the state
	InputBias  *Tensor // (g·H), or nil
	HiddenBias *Tensor // (g·H), or nil
}

// gates computes what the input and the state each contribute to the gates.
func (w CellWeights) gates(name string, gates int, x, h *Tensor) (fromInput, fromState *Tensor) {
	in := given(4, x, h, w.Input, w.Hidden, w.InputBias, w.HiddenBias)
	checkOperands(name, in)
	r := len(x.shape)
	if r < 1 || r > 2 || len(h.shape) != r || r == 2 && x.shape[0] != h.shape[0] {
		failf(name, ErrShape, in, "want x (N, in) and the state (N, H), or both without a batch")
	}
	size := h.shape[r-1]
	if !sameShape(w.Input.shape, []int{gates * size, x.shape[r-1]}) || !sameShape(w.Hidden.shape, []int{gates * size, size}) {
		failf(name, ErrShape, in, "the weights have shapes %s and %s; want %s and %s", op.ShapeString(w.Input.shape), op.ShapeString(w.Hidden.shape),
			op.ShapeString([]int{gates * size, x.shape[r-1]}), op.ShapeString([]int{gates * size, size}))
	}
	defer naming(name, in)
	return Linear(x, w.Input, w.InputBias), Linear(h, w.Hidden, w.HiddenBias)
}

// RNNCell returns the next state of a simple recurrent network: activation of the
// sum of what input x (N, in) and state h (N, H) contribute. activation is tanh
// if nil.
func RNNCell(x, h *Tensor, w CellWeights, activation func(*Tensor) *Tensor) *Tensor {
	a, b := w.gates("RNNCell", 1, x, h)
	if activation == nil {
		activation = (*Tensor).Tanh
	}
	return activation(a.Add(b))
}

// LSTMCell returns the next state and cell of a long short-term memory: x (N, in),
// h and c (N, H), gates in the order input, forget, cell, output.
func LSTMCell(x, h, c *Tensor, w CellWeights) (nextH, nextC *Tensor) {
	checkOperands("LSTMCell", []*Tensor{x, h, c})
	if !sameShape(c.shape, h.shape) {
		failf("LSTMCell", ErrShape, []*Tensor{x, h, c}, "state and cell must have the same shape")
	}
	a, b := w.gates("LSTMCell", 4, x, h)
	g := a.Add(b).Chunk(4, -1)
	nextC = g[1].Sigmoid().Mul(c).Add(g[0].Sigmoid().Mul(g[2].Tanh()))
	return g[3].Sigmoid().Mul(nextC.Tanh()), nextC
}

// GRUCell returns the next state of a gated recurrent unit: x (N, in), h (N, H),
// gates in the order reset, update, new.
func GRUCell(x, h *Tensor, w CellWeights) *Tensor {
	a, b := w.gates("GRUCell", 3, x, h)
	i, s := a.Chunk(3, -1), b.Chunk(3, -1)
	reset, update := i[0].Add(s[0]).Sigmoid(), i[1].Add(s[1]).Sigmoid()
	fresh := i[2].Add(reset.Mul(s[2])).Tanh()
	return fresh.Add(update.Mul(h.Sub(fresh)))
}

// SequenceOptions are the options of [RNNSequence], [LSTMSequence] and [GRUSequence].
type SequenceOptions struct {
	Reverse bool // from the last step to the first
	Relu    bool // RNNSequence: max(x, 0) instead of tanh
}

// RNNSequence reads a sequence x (L, N, in) with a simple recurrent network, from the
// state h (N, H), and returns the states at all steps (L, N, H): see [RNNCell]. It is
// one op, and so is its gradient.
func RNNSequence(x, h *Tensor, w CellWeights, o SequenceOptions) *Tensor {
	cell := op.TanhCell
	if o.Relu {
		cell = op.ReluCell
	}
	return sequence("RNNSequence", cell, x, h, nil, w, o)
}

// LSTMSequence reads a sequence x (L, N, in) with a long short-term memory, from the
// state h and the cell c (N, H), and returns the states at all steps (L, N, H) and the
// last cell (N, H): see [LSTMCell].
func LSTMSequence(x, h, c *Tensor, w CellWeights, o SequenceOptions) (y, lastC *Tensor) {
	if o.Relu {
		failf("LSTMSequence", ErrArgument, nil, "Relu is an option of RNNSequence")
	}
	both := sequence("LSTMSequence", op.LSTMCell, x, h, c, w, o)
	l := both.shape[0] - 1
	lastC = both.Index(l).Copy() // the states own the memory
	return both.Narrow(0, 0, l).owned(), lastC
}

// GRUSequence reads a sequence x (L, N, in) with gated recurrent units, from the state
// h (N, H), and returns the states at all steps (L, N, H): see [GRUCell].
func GRUSequence(x, h *Tensor, w CellWeights, o SequenceOptions) *Tensor {
	if o.Relu {
		failf("GRUSequence", ErrArgument, nil, "Relu is an option of RNNSequence")
	}
	return sequence("GRUSequence", op.GRUCell, x, h, nil, w, o)
}

func sequence(name string, cell op.Cell, x, h, c *Tensor, w CellWeights, o SequenceOptions) *Tensor {
	in := []*Tensor{x, h}
	if cell == op.LSTMCell {
		in = append(in, c)
	}
	in = append(in, w.Input, w.Hidden)
	in = given(len(in), append(in, w.InputBias, w.HiddenBias)...)
	checkOperands(name, in)
	if (w.InputBias == nil) != (w.HiddenBias == nil) {
		failf(name, ErrArgument, in, "one bias is given and one is nil; want both or none")
	}
	if i := w.Input.shape; len(x.shape) == 3 && len(i) == 2 && x.shape[2] != i[1] {
		failf(name, ErrShape, in, "x %s has %d features; the weights of the input %s are for %d", op.ShapeString(x.shape), x.shape[2], op.ShapeString(i), i[1])
	}
	defer naming(name, in)
	return apply(op.Recurrent, op.Recurrence{Cell: cell, Bias: w.InputBias != nil, Reverse: o.Reverse}, in...)
}
