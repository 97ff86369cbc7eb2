package data

import (
	"errors"
	"math"
	"testing"

	"github.com/locusml/locus"
)

// counted is a dataset that says it has n examples, and gives none.
type counted int

func (c counted) Len() int                                        { return int(c) }
func (c counted) Batch([]int, locus.Key) ([]*locus.Tensor, error) { return []*locus.Tensor{nil}, nil }

// TestSillyArguments has what used to hang, to end the process, to be a foreign
// panic or to be accepted.
func TestSillyArguments(t *testing.T) {
	const huge = 1 << 40
	d, err := NewTensorDataset(locus.Ones(4, 1, 2, 2), locus.Zeros(4))
	if err != nil {
		t.Fatal(err)
	}
	images := []*locus.Tensor{locus.Ones(1, 3, 2, 2)}
	var got error
	returned := func(_ any, err error) { got = err }
	for what, f := range map[string]func(){
		"a loader's workers":   func() { returned(NewLoader(d, Options{BatchSize: 1, Workers: huge})) },
		"a loader's prefetch":  func() { returned(NewLoader(d, Options{BatchSize: 1, Prefetch: huge})) },
		"a loader of nil":      func() { returned(NewLoader(nil, Options{BatchSize: 1})) },
		"a loader of less":     func() { returned(NewLoader(counted(-1), Options{BatchSize: 1})) },
		"With nil":             func() { l, _ := NewLoader(d, Options{BatchSize: 1}); returned(l.With(nil)) },
		"Subset of nil":        func() { returned(Subset(nil, nil)) },
		"Split of nil":         func() { returned(Split(nil, locus.Key{}, 1)) },
		"Split that overflows": func() { returned(Split(d, locus.Key{}, 1, math.MaxInt, 1)) },
		"Concat of nil":        func() { Concat(d, nil) },
		"Concat that is full":  func() { Concat(counted(math.MaxInt), d) },
		"Map of nil":           func() { Map(nil) },
		"Map with nil":         func() { Map(d, nil) },
		"a dataset of nil":     func() { returned(NewTensorDataset(nil)) },
		"a dataset of zero":    func() { returned(NewTensorDataset(new(locus.Tensor))) },
		"Normalize":            func() { Normalize([]float32{1, 2, 3}, []float32{1}) },
		"Normalize of nothing": func() { Normalize(nil, nil) },
		"RandomFlip":           func() { RandomFlip(math.NaN()) },
		"RandomCrop":           func() { RandomCrop(huge) },
		"Resize":               func() { Resize(huge, 1) },
		"no fields":            func() { RandomFlip(0.5)(nil, locus.Key{}) },
		"ImageFolder":          func() { returned(ImageFolder(".", ImageOptions{Height: huge, Width: 1})) },
		"ParseCSV of nil":      func() { returned(ParseCSV(nil, CSVOptions{})) },
		"NewEncoder of nil":    func() { returned(NewEncoder(nil, Features{})) },
		"a nil loader":         func() { (*Loader)(nil).Len() },
		"a zero loader":        func() { new(Loader).Order(0) },
		"a zero dataset":       func() { new(TensorDataset).Len() },
		"a zero Classified":    func() { new(Classified).Len() },
		"an empty batch":       func() { new(Batch).Y() },
		"a nil table":          func() { (*Table)(nil).Len() },
		"a nil vocabulary":     func() { (*Vocab)(nil).Len() },
	} {
		got = nil
		if err := locus.Try(f); err != nil {
			got = err
		}
		if !errors.Is(got, locus.ErrArgument) {
			t.Errorf("%s: got %v, want %v", what, got, locus.ErrArgument)
		}
	}
	if err := locus.Try(func() { Normalize([]float32{0, 0}, []float32{1, 1})(images, locus.Key{}) }); !errors.Is(err, locus.ErrShape) {
		t.Errorf("two means for three channels: %v", err)
	}
	l, err := NewLoader(counted(3), Options{BatchSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range l.Epoch(0) {
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("a dataset of nil tensors: %v", err)
		}
	}
}
