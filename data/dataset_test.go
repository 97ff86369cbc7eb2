package data

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func batchOf(t testing.TB, d Dataset, at ...int) []*locus.Tensor {
	t.Helper()
	b, err := d.Batch(at, locus.NewKey(0))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func targets(t testing.TB, d Dataset, at ...int) []int64 {
	t.Helper()
	b := batchOf(t, d, at...)
	return locus.ToSlice[int64](b[len(b)-1])
}

func everything(d Dataset) []int {
	at := make([]int, d.Len())
	for i := range at {
		at[i] = i
	}
	return at
}

func TestTensorDataset(t *testing.T) {
	for _, dev := range []locus.Device{locus.CPU(), virtualGPU()} {
		d := counting(t, dev, 10)
		for _, at := range [][]int{{3}, {0, 1, 2}, {9, 0, 9}, {7, 8, 9}} {
			got := targets(t, d, at...)
			for i, p := range at {
				if got[i] != int64(p) {
					t.Errorf("%v: %v", at, got)
				}
			}
		}
		// A batch is the caller's own: freeing it must not touch the data.
		for _, at := range [][]int{{0, 1, 2}, {2, 1}} {
			for _, x := range batchOf(t, d, at...) {
				if x.SharesMemory(d.Tensors()[0]) || x.SharesMemory(d.Tensors()[1]) {
					t.Error("a batch shares memory with the dataset")
				}
			}
		}
		for _, at := range [][]int{{10}, {-1}, {0, 11}} {
			if _, err := d.Batch(at, locus.Key{}); !errors.Is(err, locus.ErrIndex) {
				t.Errorf("%v: %v", at, err)
			}
		}
		if _, err := d.Batch(nil, locus.Key{}); !errors.Is(err, locus.ErrArgument) {
			t.Error(err)
		}
	}
	cpu := locus.CPU()
	for name, c := range map[string]struct {
		fields []*locus.Tensor
		kind   error
	}{
		"none":    {nil, locus.ErrArgument},
		"nil":     {[]*locus.Tensor{nil}, locus.ErrArgument},
		"scalar":  {[]*locus.Tensor{cpu.Ones()}, locus.ErrShape},
		"lengths": {[]*locus.Tensor{cpu.Ones(3), cpu.Ones(4)}, locus.ErrShape},
		"devices": {[]*locus.Tensor{cpu.Ones(3), virtualGPU().Ones(3)}, locus.ErrDevice},
	} {
		if _, err := NewTensorDataset(c.fields...); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLabelsOutOfRange(t *testing.T) {
	for _, bad := range []int64{-1, 3} {
		_, err := NewClassified(locus.CPU().Ones(2, 4), locus.CPU().From([]int64{0, bad}), []string{"a", "b", "c"})
		if !errors.Is(err, locus.ErrIndex) {
			t.Error(err)
		}
	}
	if _, err := NewClassified(locus.CPU().Ones(2, 4), locus.CPU().From([]float32{0, 1}), []string{"a", "b"}); !errors.Is(err, locus.ErrDType) {
		t.Error(err)
	}
}

func TestSubsetConcatSplit(t *testing.T) {
	d := counting(t, locus.CPU(), 10)
	s, err := Subset(d, []int{9, 3, 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := targets(t, s, 2, 0); !slices.Equal(got, []int64{3, 9}) || s.Len() != 3 {
		t.Error(got)
	}
	if _, err := Subset(d, []int{10}); !errors.Is(err, locus.ErrIndex) {
		t.Error(err)
	}
	if _, err := s.Batch([]int{3}, locus.Key{}); !errors.Is(err, locus.ErrIndex) {
		t.Error(err)
	}

	c := Concat(s, d, s)
	if c.Len() != 16 {
		t.Errorf("%d examples", c.Len())
	}
	for _, at := range [][]int{{0, 1, 2, 3, 4}, {15, 3, 0, 12, 13, 2}, {5, 6}, {12, 0}} {
		got := targets(t, c, at...)
		all := []int64{9, 3, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 3, 3}
		for i, p := range at {
			if got[i] != all[p] {
				t.Errorf("%v: %v", at, got)
				break
			}
		}
	}
	if _, err := Concat(d, mustTensors(t, locus.CPU().Ones(1))).Batch([]int{0, 10}, locus.Key{}); !errors.Is(err, locus.ErrShape) {
		t.Error(err)
	}

	parts, err := Split(d, locus.NewKey(5), 3, -1, 2)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for i, n := range []int{3, 5, 2} {
		if parts[i].Len() != n {
			t.Errorf("part %d has %d", i, parts[i].Len())
		}
		all = append(all, targets(t, parts[i], everything(parts[i])...)...)
	}
	order := slices.Clone(all)
	if slices.Sort(all); !slices.Equal(all, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) || slices.IsSorted(order) {
		t.Errorf("%v", order)
	}
	again, _ := Split(d, locus.NewKey(5), 3, -1, 2)
	if !slices.Equal(targets(t, again[1], 0, 1, 2), targets(t, parts[1], 0, 1, 2)) {
		t.Error("the same key splits differently")
	}
	for _, sizes := range [][]int{{11}, {-2}, {-1, -1}, {6, 5}} {
		if _, err := Split(d, locus.NewKey(5), sizes...); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%v: %v", sizes, err)
		}
	}
}

func mustTensors(t testing.TB, fields ...*locus.Tensor) *TensorDataset {
	t.Helper()
	d, err := NewTensorDataset(fields...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMap(t *testing.T) {
	d := Map(counting(t, locus.CPU(), 10),
		func(b []*locus.Tensor, _ locus.Key) []*locus.Tensor {
			return []*locus.Tensor{b[0].Mul(2).Add(1), b[0], b[1]}
		},
		func(b []*locus.Tensor, key locus.Key) []*locus.Tensor {
			noise := b[0].Device().Key(key).Randn(b[0].Shape()...)
			return []*locus.Tensor{b[0].Reshape(-1), noise, b[2]}
		})
	b := batchOf(t, d, 1, 4)
	if got := locus.ToSlice[float32](b[0]); !slices.Equal(got, []float32{3, -1, 9, -7}) {
		t.Error(got)
	}
	again := batchOf(t, d, 1, 4)
	if !slices.Equal(locus.ToSlice[float32](b[1]), locus.ToSlice[float32](again[1])) {
		t.Error("the same key gives other noise")
	}
	other, err := d.Batch([]int{1, 4}, locus.NewKey(9))
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(locus.ToSlice[float32](b[1]), locus.ToSlice[float32](other[1])) {
		t.Error("another key gives the same noise")
	}
	broken := Map(counting(t, locus.CPU(), 10), func(b []*locus.Tensor, _ locus.Key) []*locus.Tensor {
		return []*locus.Tensor{b[0].MatMul(b[0])}
	})
	if _, err := broken.Batch([]int{1, 2, 3}, locus.Key{}); !errors.Is(err, locus.ErrShape) {
		t.Error(err)
	}
}

// What transforms compute on the way is freed at once, not when the collector
// comes around.
// A transform that loses the batch is an error that says so.
func TestMapToNothing(t *testing.T) {
	d, err := NewTensorDataset(locus.Ones(3, 2))
	if err != nil {
		t.Fatal(err)
	}
	lost := Map(d, func([]*locus.Tensor, locus.Key) []*locus.Tensor { return nil })
	if _, err := lost.Batch([]int{0}, locus.NewKey(0)); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "no fields") {
		t.Error(err)
	}
}

func TestMapFreesWhatItComputes(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	d := Map(mustTensors(t, gpu.Ones(16, 64<<10)), func(b []*locus.Tensor, _ locus.Key) []*locus.Tensor {
		return []*locus.Tensor{b[0].Add(1).Mul(2).Sum(1)}
	})
	before := gpu.MemoryStats().InUse
	b := batchOf(t, d, 3, 2, 1, 0)
	if grown := gpu.MemoryStats().InUse - before; grown > 4<<10 {
		t.Errorf("%d bytes stay", grown)
	}
	if got := locus.ToSlice[float32](b[0]); got[0] != 4*64<<10 {
		t.Error(got)
	}
}

func TestSyntheticRegression(t *testing.T) {
	w := []float32{2, -3.4}
	d, err := SyntheticRegression(locus.NewKey(1), 2000, w, 4.2, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	b := batchOf(t, d, everything(d)...)
	if fmt.Sprint(b[0].Shape(), b[1].Shape()) != "[2000 2] [2000 1]" {
		t.Error(b[0].Shape(), b[1].Shape())
	}
	noise := b[1].Sub(b[0].MatMul(locus.From(w, 2, 1))).Sub(4.2)
	if m, s := noise.Mean().Item(), noise.Std().Item(); math.Abs(m) > 1e-3 || math.Abs(s-0.01) > 1e-3 {
		t.Errorf("noise of mean %v and deviation %v", m, s)
	}
	if m, s := b[0].Mean().Item(), b[0].Std().Item(); math.Abs(m) > 0.05 || math.Abs(s-1) > 0.05 {
		t.Errorf("inputs of mean %v and deviation %v", m, s)
	}
	if _, err := SyntheticRegression(locus.NewKey(1), 0, w, 0, 0); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

func TestDigits(t *testing.T) {
	d, err := Digits()
	if err != nil {
		t.Fatal(err)
	}
	if d.Len() != 1797 || len(d.Classes) != 10 {
		t.Errorf("%d examples, %d classes", d.Len(), len(d.Classes))
	}
	b := batchOf(t, d, everything(d)...)
	if fmt.Sprint(b[0].Shape()) != "[1797 1 8 8]" {
		t.Error(b[0].Shape())
	}
	count := make([]int, 10)
	for _, l := range locus.ToSlice[int64](b[1]) {
		count[l]++
	}
	// As scikit-learn's load_digits gives them: the classes' sizes, the sum of all
	// pixels, and the first image.
	if want := []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}; !slices.Equal(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
	sum := b[0].Cast(locus.Float64).Sum().Item() * 16
	if sum != 561718 {
		t.Errorf("the pixels add up to %v", sum)
	}
	first := []float32{0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0}
	for i, v := range locus.ToSlice[float32](b[0].Narrow(0, 0, 1).Flatten())[:16] {
		if v != first[i]/16 {
			t.Errorf("pixel %d is %v", i, v)
		}
	}
	train, test, err := DigitsSplit(locus.NewKey(0))
	if err != nil || train.Len() != 1437 || test.Len() != 360 {
		t.Errorf("%v", err)
	}
}
