package nn

import (
	"fmt"

	"github.com/locusml/locus"
)

// padding is which steps of sequences (L, N, …) count.
type padding struct {
	valid    *locus.Tensor // (L, N, 1): bools
	backward *locus.Tensor // (L, N, 1): the steps of each sequence from its end on, then those behind it
	last     *locus.Tensor // (1, N, 1): the last step of each
}

func newPadding(name string, x, lengths *locus.Tensor) *padding {
	steps, n := x.Dim(0), x.Dim(1)
	if lengths.Rank() != 1 || lengths.Dim(0) != n || lengths.DType() != locus.Int32 && lengths.DType() != locus.Int64 {
		fail(locus.ErrShape, name, fmt.Sprintf("lengths are %s %v; want an integer for each of the %d sequences", lengths.DType(), lengths.Shape(), n),
			"make them with locus.From([]int{…}), on the device of the input")
	}
	length := lengths.Cast(locus.Int64).Reshape(1, n, 1)
	step := beside(x, x.Device().As(locus.Int64).Arange(0, float64(steps))).Reshape(steps, 1, 1)
	p := &padding{valid: step.Lt(length), last: length.Sub(1)}
	p.backward = p.valid.Where(p.last.Sub(step), step)
	return p
}

// clear sets the steps that do not count to 0.
func (p *padding) clear(x *locus.Tensor) *locus.Tensor { return p.valid.Where(x, 0) }

// pick returns the steps at (K, N, 1) of x (L, N, features).
func pick(x, at *locus.Tensor) *locus.Tensor {
	return x.Gather(0, at.Expand(at.Dim(0), at.Dim(1), x.Dim(2)))
}

// closed is what goes into a gate so that it is shut, or wide open, whatever else does: the
// sigmoid is 0 or 1 to the bit, and half precision can hold it.
const closed = 1e4

// scan is a recurrence's scan of sequences that end at steps of their own, with the state
// there. The second direction reads each sequence turned around.
//
// The state at a sequence's end is a step of the result. An LSTM's cell is not, so it is kept as
// it is from there on: a further feature, which is 1 behind the end, shuts the input gate and
// opens the forget gate.
func (p *padding) scan(kind recurrence, w locus.CellWeights, x, h, c *locus.Tensor, back bool) (y, lastH, lastC *locus.Tensor) {
	if back {
		x = pick(x, p.backward)
	}
	if kind.hasCell() {
		hidden := h.Dim(1)
		m := x.Device().As(x.DType())
		hold := locus.Concat(0, beside(x, m.Full(-closed, hidden, 1)), beside(x, m.Full(closed, hidden, 1)), beside(x, m.Zeros(2*hidden, 1)))
		x = locus.Concat(2, x, p.valid.Not().Cast(x.DType()))
		w.Input = locus.Concat(1, w.Input, hold)
	}
	y, lastC = kind.scan(w, x, h, c, locus.SequenceOptions{})
	lastH = pick(y, p.last).Squeeze(0)
	if back {
		y = pick(y, p.backward)
	}
	return p.clear(y), lastH, lastC
}
