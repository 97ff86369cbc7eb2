package nn

import "github.com/locusml/locus"

// recurrence is one kind of recurrent network: what one cell does with a sequence,
// which is one op of package locus.
type recurrence interface {
	name() string
	gates() int
	hasCell() bool
	// scan reads x (L, N, in) from state h and cell c (N, hidden), c nil where there is none, and
	// returns the states (L, N, hidden) and the last cell, or nil.
	scan(w locus.CellWeights, x, h, c *locus.Tensor, o locus.SequenceOptions) (y, lastC *locus.Tensor)
}

// weights returns the cell's weights as package locus takes them.
func (c *RecurrentCell) weights() locus.CellWeights {
	return locus.CellWeights{Input: c.WeightIH.Value(), Hidden: c.WeightHH.Value(), InputBias: c.BiasIH.valueOrNil(), HiddenBias: c.BiasHH.valueOrNil()}
}

// simpleRecurrence is h' = tanh(x + U·h), or with max(·, 0).
type simpleRecurrence struct{ relu bool }

func (simpleRecurrence) name() string  { return "RNN" }
func (simpleRecurrence) gates() int    { return 1 }
func (simpleRecurrence) hasCell() bool { return false }

func (r simpleRecurrence) scan(w locus.CellWeights, x, h, _ *locus.Tensor, o locus.SequenceOptions) (y, lastC *locus.Tensor) {
	o.Relu = r.relu
	return locus.RNNSequence(x, h, w, o), nil
}

// lstmRecurrence has the gates input, forget, cell, output.
type lstmRecurrence struct{}

func (lstmRecurrence) name() string  { return "LSTM" }
func (lstmRecurrence) gates() int    { return 4 }
func (lstmRecurrence) hasCell() bool { return true }

func (lstmRecurrence) scan(w locus.CellWeights, x, h, c *locus.Tensor, o locus.SequenceOptions) (y, lastC *locus.Tensor) {
	return locus.LSTMSequence(x, h, c, w, o)
}

// gruRecurrence has the gates reset, update, new.
type gruRecurrence struct{}

func (gruRecurrence) name() string  { return "GRU" }
func (gruRecurrence) gates() int    { return 3 }
func (gruRecurrence) hasCell() bool { return false }

func (gruRecurrence) scan(w locus.CellWeights, x, h, _ *locus.Tensor, o locus.SequenceOptions) (y, lastC *locus.Tensor) {
	return locus.GRUSequence(x, h, w, o), nil
}
