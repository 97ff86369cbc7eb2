package data

import (
	"fmt"

	"github.com/locusml/locus"
)

// windows cuts a long row of tokens into examples for a language model: steps
// tokens, and the same moved on by one.
type windows struct {
	tokens []int64
	steps  int
	starts func(i int) int // where example i starts
	n      int
	// forEpoch, where it is set, returns the windows of an epoch.
	forEpoch func(key locus.Key) *windows
}

// NewSequences returns every run of steps tokens as an example: the input, and as
// the target the same run moved on by one, both int64. Shuffled, these are random
// samples of the text.
func NewSequences(tokens []int64, steps int) (Dataset, error) {
	n := len(tokens) - steps
	if err := checkSequences(tokens, steps, n); err != nil {
		return nil, err
	}
	return &windows{tokens: tokens, steps: steps, n: n, starts: func(i int) int { return i }}, nil
}

// NewRandomSequences skips a random number of tokens, another one in each epoch,
// and cuts the rest into runs of steps tokens that do not overlap. Use a loader
// with Shuffle.
func NewRandomSequences(tokens []int64, steps int) (Dataset, error) {
	n := (len(tokens) - steps) / max(steps, 1) // whatever the offset, below steps
	if err := checkSequences(tokens, steps, n); err != nil {
		return nil, err
	}
	at := func(offset int) *windows {
		return &windows{tokens: tokens, steps: steps, n: n, starts: func(i int) int { return offset + i*steps }}
	}
	w := at(0)
	w.forEpoch = func(key locus.Key) *windows { return at(newStream(key, 0).below(steps)) }
	return w, nil
}

// NewSequentialSequences skips a random number of tokens, another one in each
// epoch, and cuts the rest into batch long rows, and those into runs of steps
// tokens: example i of a batch goes on where example i of the batch before it
// ended, so that a recurrent network can keep its state. Use a loader with this
// batch size and without Shuffle.
func NewSequentialSequences(tokens []int64, batch, steps int) (Dataset, error) {
	if batch < 1 {
		return nil, fmt.Errorf("data: batches of %d rows; want at least one: %w", batch, locus.ErrArgument)
	}
	row := (len(tokens) - steps) / batch / max(steps, 1) * steps // tokens of a row, whatever the offset
	n := batch * (row / max(steps, 1))
	if err := checkSequences(tokens, steps, n); err != nil {
		return nil, err
	}
	at := func(offset int) *windows {
		return &windows{tokens: tokens, steps: steps, n: n, starts: func(i int) int { return offset + i%batch*row + i/batch*steps }}
	}
	w := at(0)
	w.forEpoch = func(key locus.Key) *windows { return at(newStream(key, 0).below(steps)) }
	return w, nil
}

func checkSequences(tokens []int64, steps, n int) error {
	if steps < 1 {
		return fmt.Errorf("data: sequences of %d steps; want at least one: %w", steps, locus.ErrArgument)
	}
	if n < 1 {
		return fmt.Errorf("data: %d tokens are too few for these sequences of %d steps: %w", len(tokens), steps, locus.ErrArgument)
	}
	return nil
}

func (w *windows) Len() int { return w.n }

func (w *windows) ForEpoch(key locus.Key) Dataset {
	if w.forEpoch == nil {
		return w
	}
	return w.forEpoch(key)
}

func (w *windows) Batch(at []int, _ locus.Key) ([]*locus.Tensor, error) {
	if err := checkPositions(at, w.n); err != nil {
		return nil, err
	}
	x, y := make([]int64, len(at)*w.steps), make([]int64, len(at)*w.steps)
	for i, p := range at {
		s := w.starts(p)
		copy(x[i*w.steps:(i+1)*w.steps], w.tokens[s:])
		copy(y[i*w.steps:(i+1)*w.steps], w.tokens[s+1:])
	}
	out := make([]*locus.Tensor, 2)
	err := locus.Try(func() {
		out[0] = locus.CPU().From(x, len(at), w.steps)
		out[1] = locus.CPU().From(y, len(at), w.steps)
	})
	return out, err
}
