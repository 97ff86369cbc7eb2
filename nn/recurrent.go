package nn

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// RecurrentOptions are the options of [RNN], [LSTM] and [GRU]. The zero value is
// one layer, forwards.
type RecurrentOptions struct {
	Layers        int     // one on top of the other; 0 means 1
	Bidirectional bool    // a second pass from the end; the results of both lie side by side
	Dropout       float64 // of what each layer but the last passes on, in training
	ReLU          bool    // RNN only: max(x, 0) instead of tanh
}

// RecurrentLayer reads sequences (N, L, in), the batch first, and keeps a state on
// the way. Make one with [RNN], [LSTM] or [GRU].
//
// Weights have PyTorch's layouts, with the gates one after the other (LSTM:
// input, forget, cell, output; GRU: reset, update, new), and its names:
// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, and with the ending
// _reverse for the second direction.
type RecurrentLayer struct {
	Cells   []*RecurrentCell // layer by layer, in each first the forward direction
	Dropout *DropoutLayer

	kind   recurrence
	hidden int
	o      RecurrentOptions
	opts   options
}

// RecurrentCell holds the weights of one layer in one direction.
type RecurrentCell struct {
	WeightIH *Parameter // (gates·hidden, in)
	WeightHH *Parameter // (gates·hidden, hidden)
	BiasIH   *Parameter // (gates·hidden); nil without
	BiasHH   *Parameter // (gates·hidden); nil without
}

// RecurrentState is what a recurrent layer remembers between two pieces of a
// sequence: one entry for each cell.
type RecurrentState struct {
	H *locus.Tensor // (layers·directions, N, hidden)
	C *locus.Tensor // the same, LSTM only; nil otherwise
}

// Detach returns the state without its history, so that gradients end there: for
// sequences that are read in pieces.
func (s RecurrentState) Detach() RecurrentState {
	if s.H != nil {
		s.H = s.H.Detach()
	}
	if s.C != nil {
		s.C = s.C.Detach()
	}
	return s
}

// RNN makes a simple recurrent network: h = tanh(W·x + b + U·h + c).
func RNN(in, hidden int, o RecurrentOptions, opts ...Option) *RecurrentLayer {
	return newRecurrent(simpleRecurrence{o.ReLU}, in, hidden, o, opts)
}

// LazyRNN is [RNN] that learns the number of its inputs from the first of them.
func LazyRNN(hidden int, o RecurrentOptions, opts ...Option) *RecurrentLayer {
	return newRecurrent(simpleRecurrence{o.ReLU}, 0, hidden, o, opts)
}

// LSTM makes a long short-term memory.
func LSTM(in, hidden int, o RecurrentOptions, opts ...Option) *RecurrentLayer {
	return newRecurrent(lstmRecurrence{}, in, hidden, o, opts)
}

// LazyLSTM is [LSTM] that learns the number of its inputs from the first of them.
func LazyLSTM(hidden int, o RecurrentOptions, opts ...Option) *RecurrentLayer {
	return newRecurrent(lstmRecurrence{}, 0, hidden, o, opts)
}

// GRU makes a network of gated recurrent units.
func GRU(in, hidden int, o RecurrentOptions, opts ...Option) *RecurrentLayer {
	return newRecurrent(gruRecurrence{}, in, hidden, o, opts)
}

// LazyGRU is [GRU] that learns the number of its inputs from the first of them.
func LazyGRU(hidden int, o RecurrentOptions, opts ...Option) *RecurrentLayer {
	return newRecurrent(gruRecurrence{}, 0, hidden, o, opts)
}

func newRecurrent(kind recurrence, in, hidden int, o RecurrentOptions, opts []Option) *RecurrentLayer {
	if hidden < 1 || in < 0 || o.Layers < 0 {
		fail(locus.ErrArgument, "nn."+kind.name(), fmt.Sprintf("%d inputs, a state of %d and %d layers; want at least one of each", in, hidden, o.Layers), "")
	}
	gate.Check("nn."+kind.name(), gate.Count("the number of layers", o.Layers, 0, gate.MaxLayers), gate.Shape(8, hidden, hidden), gate.Shape(4, hidden, in))
	o.Layers = max(o.Layers, 1)
	l := &RecurrentLayer{kind: kind, hidden: hidden, o: o, opts: gather(opts)}
	l.Dropout = newDropout("Dropout", o.Dropout, locus.Dropout, l.opts.key.Fold(1<<32))
	l.Cells = make([]*RecurrentCell, o.Layers*l.directions())
	rows := kind.gates() * hidden
	for i := range l.Cells {
		from := -1
		if i >= l.directions() {
			from = hidden * l.directions()
		}
		l.Cells[i] = &RecurrentCell{WeightIH: l.opts.lazy(rows, from), WeightHH: l.opts.lazy(rows, hidden), BiasIH: l.opts.lazyBias(rows), BiasHH: l.opts.lazyBias(rows)}
	}
	if in > 0 {
		l.make(locus.DefaultDevice(), in)
	}
	return l
}

func (l *RecurrentLayer) directions() int {
	if l.o.Bidirectional {
		return 2
	}
	return 1
}

// make sets the cells' first values as PyTorch does: everything uniform in
// ±1/√hidden.
func (l *RecurrentLayer) make(d locus.Device, first int) {
	rows := l.kind.gates() * l.hidden
	for i, c := range l.Cells {
		in := first
		if i >= l.directions() {
			in = l.hidden * l.directions()
		}
		o := l.opts
		o.key = l.opts.key.Fold(uint64(2 * i))
		o.make(d, c.WeightIH, FanIn(l.hidden), c.BiasIH, FanIn(l.hidden), rows, in)
		o.key = l.opts.key.Fold(uint64(2*i + 1))
		o.make(d, c.WeightHH, FanIn(l.hidden), c.BiasHH, FanIn(l.hidden), rows, l.hidden)
	}
}

func (l *RecurrentLayer) reset(key locus.Key) {
	l.opts.key = key
	for _, c := range l.Cells {
		c.WeightIH, c.WeightHH, c.BiasIH, c.BiasHH = c.WeightIH.unmade(), c.WeightHH.unmade(), c.BiasIH.unmade(), c.BiasHH.unmade()
	}
}

// stateName turns "cells.3.weight_ih" into "weight_ih_l1_reverse".
func (l *RecurrentLayer) stateName(path string) string {
	number, name, _ := strings.Cut(strings.TrimPrefix(path, "cells."), ".")
	i, err := strconv.Atoi(number)
	if err != nil {
		return path
	}
	name += "_l" + strconv.Itoa(i/l.directions())
	if i%l.directions() == 1 {
		name += "_reverse"
	}
	return name
}

// String returns the kind of network.
func (l *RecurrentLayer) String() string {
	if l == nil || l.kind == nil {
		return "Recurrent"
	}
	return l.kind.name()
}

// Forward reads sequences x (N, L, in) from a state of zeros and returns the last
// layer's states at all steps (N, L, directions·hidden).
func (l *RecurrentLayer) Forward(x *locus.Tensor) *locus.Tensor {
	y, _, _ := l.run(x, nil, RecurrentState{})
	return y
}

// Run reads sequences x (N, L, in), beginning with a state, whose tensors may be
// nil for zeros, and returns the last layer's states at all steps (N, L,
// directions·hidden) and the state at the end.
func (l *RecurrentLayer) Run(x *locus.Tensor, s RecurrentState) (*locus.Tensor, RecurrentState) {
	y, h, c := l.run(x, nil, s)
	return y, stateOf(h, c)
}

// RunPadded is Run for sequences of different lengths that were padded to a common one, with
// anything: lengths (N), integers from 1 on, say how many steps of each count. The
// result is 0 behind a sequence's end, the state is the one at its end, and a second
// direction begins there, as if each sequence had been read alone. PyTorch does this with
// pack_padded_sequence.
func (l *RecurrentLayer) RunPadded(x, lengths *locus.Tensor, s RecurrentState) (*locus.Tensor, RecurrentState) {
	y, h, c := l.run(x, lengths, s)
	return y, stateOf(h, c)
}

func stateOf(h, c []*locus.Tensor) RecurrentState {
	end := RecurrentState{H: locus.Stack(0, h...)}
	if c != nil {
		end.C = locus.Stack(0, c...)
	}
	return end
}

// run is RunPadded with the state at the end cell by cell; lastC is nil where there are no
// such cells, and lengths are nil where all steps count.
func (l *RecurrentLayer) run(x, lengths *locus.Tensor, s RecurrentState) (y *locus.Tensor, lastH, lastC []*locus.Tensor) {
	made("nn.RNN", l != nil && l.kind != nil && l.Dropout != nil && len(l.Cells) == l.o.Layers*l.directions())
	name := "nn." + l.kind.name()
	defer blame(l)
	if x.Rank() != 3 || x.Dim(1) == 0 {
		fail(locus.ErrShape, name, fmt.Sprintf("the input has shape %v; want (N, L, in) with at least one step", x.Shape()), "")
	}
	gate.Check(name, gate.Count("the number of steps", x.Dim(1), 1, max(x.Len(), gate.MaxParts))) // no memory bounds an empty batch's
	for _, c := range l.Cells {
		if c == nil {
			fail(locus.ErrArgument, name, "a cell is nil", "")
		}
		if unmade(c.WeightIH, c.WeightHH, c.BiasIH, c.BiasHH) {
			l.make(x.Device(), x.Dim(2))
			break
		}
	}
	if in := l.Cells[0].WeightIH.Value().Dim(1); x.Dim(2) != in {
		fail(locus.ErrShape, name, fmt.Sprintf("the input has shape %v, that is %d features; the layer is for %d", x.Shape(), x.Dim(2), in), "")
	}
	n := x.Dim(0)
	zeros := sync.OnceValue(func() *locus.Tensor { return beside(x, x.Device().As(x.DType()).Zeros(n, l.hidden)) })
	first := func(t *locus.Tensor, what string) func(cell int) *locus.Tensor {
		want := []int{len(l.Cells), n, l.hidden}
		if t != nil && fmt.Sprint(t.Shape()) != fmt.Sprint(want) {
			fail(locus.ErrShape, name, fmt.Sprintf("the first %s has shape %v; want (layers·directions, N, hidden) = %v", what, t.Shape(), want), "")
		}
		return func(cell int) *locus.Tensor {
			if t == nil {
				return zeros()
			}
			return t.Index(cell)
		}
	}
	if !l.kind.hasCell() && s.C != nil {
		fail(locus.ErrArgument, name, "only an LSTM has cells; leave C nil", "")
	}
	h0, c0 := first(s.H, "state"), first(s.C, "cell")

	x = x.Transpose(0, 1).Contiguous() // steps first: each is one piece of memory
	var pad *padding
	if lengths != nil {
		pad = newPadding(name, x, lengths)
		x = pad.clear(x) // NaN times a gradient of 0 would be NaN
	}
	for layer := range l.o.Layers {
		if layer > 0 {
			x = l.Dropout.forwardSteps(x)
		}
		var out []*locus.Tensor
		for direction := range l.directions() {
			i := layer*l.directions() + direction
			back := direction == 1
			var c *locus.Tensor
			if l.kind.hasCell() {
				c = c0(i)
			}
			var y, h *locus.Tensor
			if pad != nil {
				y, h, c = pad.scan(l.kind, l.Cells[i].weights(), x, h0(i), c, back)
			} else {
				y, c = l.kind.scan(l.Cells[i].weights(), x, h0(i), c, locus.SequenceOptions{Reverse: back})
				last := -1
				if back {
					last = 0
				}
				h = y.Index(last)
			}
			out, lastH = append(out, y), append(lastH, h)
			if c != nil {
				lastC = append(lastC, c)
			}
		}
		if x = out[0]; len(out) > 1 {
			x = locus.Concat(2, out...)
		}
	}
	return x.Transpose(0, 1), lastH, lastC
}
