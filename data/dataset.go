package data

import (
	"fmt"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
)

// Dataset is a collection of examples. Its methods must be safe to call from
// several goroutines.
type Dataset interface {
	// Len is the number of examples.
	Len() int

	// Batch returns the examples at the given positions: one tensor per field, with
	// the examples along axis 0. Inputs come first, targets last. The tensors are
	// the caller's own: they share no memory with the dataset. Anything random, such
	// as an augmentation, must come from key alone.
	Batch(at []int, key locus.Key) ([]*locus.Tensor, error)
}

// PerEpoch is a dataset that differs from epoch to epoch, such as sequences that
// start at another offset each time. A [Loader] asks it at the start of each.
type PerEpoch interface {
	Dataset
	// ForEpoch returns the dataset of the epoch that key belongs to; it must have as
	// many examples.
	ForEpoch(key locus.Key) Dataset
}

func forEpoch(d Dataset, key locus.Key) Dataset {
	if p, ok := d.(PerEpoch); ok {
		d = p.ForEpoch(key)
		gate.Check("data.PerEpoch", gate.Given("the dataset of the epoch", d))
	}
	return d
}

// length is the number of examples of a dataset that a program has handed over:
// an error where it is nil or the count is negative.
func length(d Dataset) (int, error) {
	if err := gate.Given("the dataset", d); err != nil {
		return 0, fmt.Errorf("data: %w", err)
	}
	n := d.Len()
	if n < 0 {
		return 0, fmt.Errorf("data: the dataset says that it has %d examples: %w", n, locus.ErrArgument)
	}
	return n, nil
}

// checkPositions refuses positions that d does not have.
func checkPositions(at []int, n int) error {
	if len(at) == 0 {
		return fmt.Errorf("data: a batch of no examples: %w", locus.ErrArgument)
	}
	for _, i := range at {
		if i < 0 || i >= n {
			return fmt.Errorf("data: there is no example %d among %d: %w", i, n, locus.ErrIndex)
		}
	}
	return nil
}

// TensorDataset holds its examples in tensors, along axis 0. They may live on
// any one device; batches are gathered there.
type TensorDataset struct {
	fields []*locus.Tensor
}

// NewTensorDataset makes a dataset of tensors that have the same number of examples:
// x and y, for instance. They are used as they are, not copied.
func NewTensorDataset(fields ...*locus.Tensor) (*TensorDataset, error) {
	if len(fields) == 0 {
		return nil, fmt.Errorf("data: a dataset needs at least one tensor: %w", locus.ErrArgument)
	}
	for i, t := range fields {
		if err := locus.Try(func() { t.Rank() }); err != nil { // nil or zero
			return nil, fmt.Errorf("data: tensor %d: %w", i, err)
		}
		switch {
		case t.Rank() == 0:
			return nil, fmt.Errorf("data: tensor %d has no axis of examples: %w", i, locus.ErrShape)
		case t.Dim(0) != fields[0].Dim(0):
			return nil, fmt.Errorf("data: tensor 0 of shape %s has %d examples, tensor %d of shape %s has %d: %w",
				op.ShapeString(fields[0].Shape()), fields[0].Dim(0), i, op.ShapeString(t.Shape()), t.Dim(0), locus.ErrShape)
		case t.Device() != fields[0].Device():
			return nil, fmt.Errorf("data: tensor 0 is on %s, tensor %d on %s: %w", fields[0].Device(), i, t.Device(), locus.ErrDevice)
		}
	}
	fields = slices.Clone(fields)
	for i, t := range fields {
		fields[i] = t.Detach()
	}
	return &TensorDataset{fields}, nil
}

// Len is the number of examples.
func (d *TensorDataset) Len() int {
	gate.Receiver("data.TensorDataset.Len", d != nil && len(d.fields) > 0, "make it with data.NewTensorDataset")
	return d.fields[0].Dim(0)
}

// Tensors returns all examples, a tensor per field.
func (d *TensorDataset) Tensors() []*locus.Tensor {
	gate.Receiver("data.TensorDataset.Tensors", d != nil && len(d.fields) > 0, "make it with data.NewTensorDataset")
	return slices.Clone(d.fields)
}

// Batch gathers rows.
func (d *TensorDataset) Batch(at []int, _ locus.Key) ([]*locus.Tensor, error) {
	gate.Receiver("data.TensorDataset.Batch", d != nil && len(d.fields) > 0, "make it with data.NewTensorDataset")
	if err := checkPositions(at, d.Len()); err != nil {
		return nil, err
	}
	out := make([]*locus.Tensor, len(d.fields))
	err := locus.Try(func() {
		if first, ok := consecutive(at); ok { // as in evaluation: plain copies
			for i, t := range d.fields {
				out[i] = t.Narrow(0, first, first+len(at)).Copy()
			}
			return
		}
		rows := d.fields[0].Device().From(at)
		for i, t := range d.fields {
			out[i] = t.Take(0, rows)
		}
		rows.Free()
	})
	return out, err
}

func consecutive(at []int) (first int, ok bool) {
	for i, p := range at {
		if p != at[0]+i {
			return 0, false
		}
	}
	return at[0], true
}

// Classified is a dataset of inputs and of class numbers (int64), with the
// names of the classes.
type Classified struct {
	Dataset
	Classes []string
}

// ForEpoch returns the underlying dataset, or its dataset for the epoch if it is a
// [PerEpoch].
func (c *Classified) ForEpoch(key locus.Key) Dataset {
	gate.Receiver("data.Classified.ForEpoch", c != nil && c.Dataset != nil, "make it with data.NewClassified")
	return forEpoch(c.Dataset, key)
}

// Len is the number of examples.
func (c *Classified) Len() int {
	gate.Receiver("data.Classified.Len", c != nil && c.Dataset != nil, "make it with data.NewClassified")
	return c.Dataset.Len()
}

// Batch returns the examples at the given positions: see [Dataset].
func (c *Classified) Batch(at []int, key locus.Key) ([]*locus.Tensor, error) {
	gate.Receiver("data.Classified.Batch", c != nil && c.Dataset != nil, "make it with data.NewClassified")
	return c.Dataset.Batch(at, key)
}

// checkLabels refuses class numbers that there are not.
func checkLabels[T int64 | uint8](labels []T, classes int, what string) error {
	for i, l := range labels {
		if int64(l) < 0 || int64(l) >= int64(classes) {
			return fmt.Errorf("data: %s: label %d of example %d is none of the %d classes: %w", what, l, i, classes, locus.ErrIndex)
		}
	}
	return nil
}

// NewClassified makes a dataset of inputs and class numbers from tensors, and checks
// that each number has a class. It reads the labels to do so.
func NewClassified(x, labels *locus.Tensor, classes []string) (*Classified, error) {
	d, err := NewTensorDataset(x, labels)
	if err != nil {
		return nil, err
	}
	var numbers []int64
	if err := locus.Try(func() { numbers = locus.ToSlice[int64](labels) }); err != nil {
		return nil, err
	}
	if err := checkLabels(numbers, len(classes), "labels"); err != nil {
		return nil, err
	}
	return &Classified{d, slices.Clone(classes)}, nil
}
