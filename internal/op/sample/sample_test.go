package sample

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// The rules accept every sample and say what the sample expects.
func TestRulesAcceptSamples(t *testing.T) {
	count, ops, wrong := 0, map[op.ID]bool{}, map[string]bool{}
	for s := range All() {
		count++
		ops[s.Op] = true
		if d := op.Get(s.Op); reflect.TypeOf(s.Attrs) != reflect.TypeOf(d.Attrs) {
			wrong[fmt.Sprintf("%s: samples have attributes of type %T, and the description in internal/op says %T: set Attrs of its Def", d, s.Attrs, d.Attrs)] = true
			continue
		}
		got, err := op.Check(s.Op, s.Attrs, s.Specs())
		if err != nil {
			t.Errorf("%s: refused: %v", s, err)
		} else if got.DType != s.Out.DType || !slices.Equal(got.Shape, s.Out.Shape) {
			t.Errorf("%s: the rule says %v, the sample %v", s, got, s.Out)
		}
	}
	for w := range wrong {
		t.Error(w)
	}
	for _, d := range op.All() {
		if !ops[d.ID] {
			t.Errorf("%s has no samples: add some in internal/op/sample, to the function of its family (%s)", d.Name, d.Family)
		}
	}
	if count < 1500 {
		t.Errorf("only %d samples", count)
	}
	t.Logf("%d samples of %d ops", count, len(ops))
}

// Every accepted dtype of every op has samples, and every op with operands has
// empty ones, ones of a single element, and ones that are not contiguous. A complex number alone has two.
func TestSamplesCoverWhatMatters(t *testing.T) {
	for _, d := range op.All() {
		for _, dt := range DTypes(d.ID) {
			var empty, single, strided, many bool
			for _, s := range Of(d.ID, dt) {
				for _, o := range s.In {
					n := op.Elements(o.Shape)
					empty = empty || n == 0
					single = single || n == 1
					many = many || n > 60
					strided = strided || o.Layout != Contiguous
				}
			}
			if len(Of(d.ID, dt)) == 0 {
				t.Errorf("%s has no samples of type %s", d.Name, dt)
			}
			if d.Family == op.CreateFamily || d.Family == op.ViewFamily {
				continue
			}
			if !empty || !strided || !many || !single && d.Family != op.IndexFamily && d.Family != op.FourierFamily {
				t.Errorf("%s of %s: empty %v, single %v, strided %v, many %v", d.Name, dt, empty, single, strided, many)
			}
		}
	}
}

func TestDifferentiableOpsHaveSmoothSamples(t *testing.T) {
	for _, d := range op.All() {
		smooth := Smooth(d.ID)
		if want := Differentiable(d.ID); want && len(smooth) < 2 || !want && len(smooth) > 0 {
			t.Errorf("%s: differentiable is %v, with %d smooth samples", d.Name, want, len(smooth))
		}
		for _, s := range smooth {
			for i, x := range s.Tensors() {
				for _, v := range x.Floats {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("%s: operand %d holds %v", s, i, v)
					}
				}
			}
		}
	}
}

func TestRulesRefuseBadSamples(t *testing.T) {
	count := 0
	for _, d := range op.All() {
		for _, b := range BadOf(d.ID) {
			count++
			_, err := op.Check(b.Op, b.Attrs, b.In)
			if !errors.Is(err, b.Kind) {
				t.Errorf("%s: got %v, want an error of kind %q", b, err, b.Kind)
			}
		}
	}
	t.Logf("%d bad samples", count)
}

// The memory holds the values where the strides say, and nothing outside it is touched.
func TestTensorsAreWhereTheirStridesSay(t *testing.T) {
	for l := Contiguous; l <= Scrambled; l++ {
		if l == Constant {
			continue // has no memory
		}
		for _, shape := range [][]int{{}, {1}, {5}, {0}, {2, 3}, {3, 0, 2}, {2, 3, 4}, {2, 1, 3, 2, 2}} {
			for _, d := range dtype.All {
				x := Operand{Shape: shape, DType: d, Layout: l, Domain: Distinct}.Tensor(7)
				size := len(x.Bytes) / d.Size()
				seen := 0
				walk(shape, x.Strides, x.Offset, func(i, p int) {
					seen++
					if p < 0 || p >= size {
						t.Fatalf("%s %v: element %d lies at %d of %d", l, shape, i, p, size)
					}
					if d.IsFloat() && GetFloat(d, x.Bytes, p) != x.Floats[i] || !d.IsFloat() && GetInt(d, x.Bytes, p) != x.Ints[i] {
						t.Fatalf("%s %v %s: element %d is not at %d", l, shape, d, i, p)
					}
				})
				if seen != op.Elements(shape) {
					t.Fatalf("%v: walked over %d elements", shape, seen)
				}
			}
		}
	}
	for l, want := range map[Layout][]int{Contiguous: {12, 4, 1}, Transposed: {1, 2, 6}, Swapped: {12, 1, 3}, Stepped: {48, 8, 2},
		Reversed: {-12, -4, -1}, Mixed: {-1, 24, 6}, BroadcastFirst: {0, 4, 1}, BroadcastLast: {3, 1, 0}, BroadcastAll: {0, 0, 0}} {
		if got, _, _ := l.place([]int{2, 3, 4}, 0); !slices.Equal(got, want) {
			t.Errorf("%s: strides %v, want %v", l, got, want)
		}
	}
	if b := (Operand{Shape: []int{2, 3, 4}, Layout: BroadcastLast}).Base(); !slices.Equal(b, []int{2, 3, 1}) {
		t.Errorf("base %v", b)
	}
}

func TestDomains(t *testing.T) {
	const n = 4001
	within := func(v Domain, lo, hi float64) {
		x := Operand{Shape: []int{n}, DType: dtype.Float64, Domain: v}.Tensor(1).Floats
		if slices.Min(x) < lo || slices.Max(x) > hi || slices.Max(x)-slices.Min(x) < 0.9*(hi-lo) {
			t.Errorf("%s: from %v to %v", v, slices.Min(x), slices.Max(x))
		}
	}
	within(Ordinary, -3, 3)
	within(Positive, 0.1, 4)
	within(NonZero, -3, 3)
	within(Unit, -0.95, 0.95)
	within(AboveOne, 1.05, 5)
	within(OffGrid, -3, 3)
	for _, v := range (Operand{Shape: []int{n}, DType: dtype.Float64, Domain: OffGrid}).Tensor(1).Floats {
		if r := math.Mod(2*v+100, 1); r < 0.2 || r > 0.8 {
			t.Fatalf("off grid gave %v", v)
		}
	}
	x := Operand{Shape: []int{n}, DType: dtype.Float64, Domain: Distinct}.Tensor(1).Floats
	slices.Sort(x)
	if len(slices.Compact(x)) != n {
		t.Error("distinct values repeat")
	}
	k := NumSpecials(dtype.Float32)
	a := Operand{Shape: []int{k, k}, DType: dtype.Float32, Domain: Special}.Tensor(1).Floats
	b := Operand{Shape: []int{k, k}, DType: dtype.Float32, Domain: SpecialRow}.Tensor(1).Floats
	pairs := map[[2]uint64]bool{}
	for i := range a {
		pairs[[2]uint64{math.Float64bits(a[i]), math.Float64bits(b[i])}] = true
	}
	if len(pairs) != k*k {
		t.Errorf("%d pairs of edge cases, want %d", len(pairs), k*k)
	}
}
