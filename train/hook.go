package train

import (
	"fmt"
	"slices"

	"github.com/locusml/locus"
)

// Stage says what a batch is for.
type Stage uint8

// The stages: of Fit the first two, of Validate, Test and Predict their own.
const (
	Training Stage = iota + 1
	Validating
	Testing
	Predicting
)

// String returns the stage's name.
func (s Stage) String() string {
	if s >= Training && s <= Predicting {
		return [...]string{"Training", "Validating", "Testing", "Predicting"}[s-1]
	}
	return fmt.Sprintf("Stage(%d)", uint8(s))
}

// Batch is what [PrepareBatch] prepares: one device's part of a batch, on that
// device.
type Batch struct {
	Stage        Stage
	Epoch, Index int             // of the batch; the epoch is 0 except in training
	First, Size  int             // the examples of the part: how many are in parts before it, and in it
	Whole        int             // examples of the batch over all devices and ranks
	Key          locus.Key       // for anything random: another for each batch, and for this part of it; see PrepareBatch
	Fields       []*locus.Tensor // inputs first, targets last; to be replaced, not changed in place
}

// PrepareBatch calls f with every batch before the model sees it: to scale or to
// augment on the device, to convert types, to put fields together. Several are
// called in order. With several devices f is called for the part of each, at the
// same time. Tensors that f computes from the fields are freed with the step. An
// error ends the run like that of [AfterStep].
//
// Draw random numbers with the batch's key, which is one for the part ([locus.Key.Part]):
// a tensor with an element or a row for each example, first axis first, has for each example
// the numbers that it would have on one device, and a run that goes on draws the same.
//
//	train.PrepareBatch(func(b *train.Batch) error {
//		b.Fields[0] = b.Fields[0].Cast(locus.Float32).Div(255)
//		return nil
//	})
func PrepareBatch(f func(*Batch) error) Option {
	return Option{func(s *settings) { s.prepareBatch = append(s.prepareBatch, f) }}
}

// PrepareModel calls f before training begins, when the model is on its device and
// all of its parameters have values, and before its optimizer is made: to load
// weights, or to freeze layers. A run that goes on from a checkpoint calls it too,
// and takes the checkpoint's values afterwards. An error ends the run like that of
// [AfterEpoch].
func PrepareModel(f func(Model) error) Option {
	return Option{func(s *settings) { s.prepareModel = append(s.prepareModel, f) }}
}

// BeforeEpoch calls f before every epoch, and before the rest of one that a run
// goes on with; its record has the number, and the examples seen so far. An error
// is like that of [AfterEpoch].
func BeforeEpoch(f func(*Epoch) error) Option {
	return Option{func(s *settings) { s.beforeEpoch = append(s.beforeEpoch, f) }}
}

// BeforeStep calls f before the first batch of every step, like [AfterStep]. Its
// learning rate is that of the step to come.
func BeforeStep(f func(*Step) error) Option {
	return Option{func(s *settings) { s.beforeStep = append(s.beforeStep, f) }}
}

// anyNil reports whether a callback is missing.
func anyNil[T any](callbacks []func(T) error) bool {
	return slices.ContainsFunc(callbacks, func(f func(T) error) bool { return f == nil })
}

// tell calls callbacks, each with a record of its own.
func tell[T any](callbacks []func(*T) error, record T) error {
	for _, f := range callbacks {
		own := record
		if err := f(&own); err != nil {
			return err
		}
	}
	return nil
}

// prepared reports whether [settings.prepare] has nothing to do.
func (set *settings) prepared(fields []*locus.Tensor, d locus.Device) bool {
	return len(set.prepareBatch) == 0 && !slices.ContainsFunc(fields, func(f *locus.Tensor) bool { return f.Device() != d })
}

// prepare puts a part of a batch on its device in scope s, and lets [PrepareBatch]
// have it.
func (set *settings) prepare(s *locus.Scope, d locus.Device, b Batch) ([]*locus.Tensor, error) {
	b.Fields = place(s, b.Fields, d)
	if len(set.prepareBatch) == 0 {
		return b.Fields, nil
	}
	const prepared = 7 // keeps its keys apart from the loader's
	b.Key = locus.NewKey(set.seed).Fold(prepared).Fold(uint64(b.Stage)).Fold(uint64(b.Epoch)).Fold(uint64(b.Index)).Fold(0).Part(b.First, b.Size)
	for _, f := range set.prepareBatch {
		if err := f(&b); err != nil {
			return nil, err
		}
	}
	if len(b.Fields) == 0 || slices.Contains(b.Fields, nil) {
		return nil, bad("PrepareBatch left a batch without fields, or with one that is nil")
	}
	return b.Fields, nil
}
