package locus

import (
	"errors"
	"testing"
)

func TestRoll(t *testing.T) {
	x := As(Float64).Arange(6).Reshape(2, 3)
	for by, want := range map[int][]float64{0: {0, 1, 2, 3, 4, 5}, 1: {2, 0, 1, 5, 3, 4}, -1: {1, 2, 0, 4, 5, 3}, 5: {1, 2, 0, 4, 5, 3}, -6: {0, 1, 2, 3, 4, 5}} {
		near(t, x.Roll(by, 1), want, 0)
	}
	near(t, x.Roll(1, -2), []float64{3, 4, 5, 0, 1, 2}, 0)
	hasShape(t, Zeros(0, 2).Roll(3, 0), 0, 2)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Roll(2, 1) }, x)
}

func TestPadWith(t *testing.T) {
	x := From([]float64{0, 1, 2})
	near(t, x.PadWith(PadReflect, 2, 1), []float64{2, 1, 0, 1, 2, 1}, 0)
	near(t, x.PadWith(PadReplicate, 2, 4), []float64{0, 0, 0, 1, 2, 2, 2, 2, 2}, 0)
	near(t, x.PadWith(PadCircular, 2, 3), []float64{1, 2, 0, 1, 2, 0, 1, 2}, 0)
	m := x.Reshape(1, 3)
	near(t, m.PadWith(PadReplicate, 1, 0, 0, 1), []float64{0, 1, 2, 2, 0, 1, 2, 2}, 0)
	if m.PadWith(PadReflect) != m {
		t.Error("no padding does not give the tensor itself")
	}
	odd := make([]int, 1)
	in := randomly([]int{2, 3, 4})
	for _, mode := range []PadMode{PadReflect, PadReplicate, PadCircular} {
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].PadWith(mode, 0, 0, 1, 2, 2, 1) }, in...)
	}
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"more than there is to mirror": {ErrShape, func() { x.PadWith(PadReflect, 3, 0) }},
		"more than a turn":             {ErrShape, func() { x.PadWith(PadCircular, 0, 4) }},
		"nothing to repeat":            {ErrShape, func() { Zeros(0).PadWith(PadReplicate, 1, 0) }},
		"a negative amount":            {ErrShape, func() { x.PadWith(PadReplicate, -1, 0) }},
		"one amount":                   {ErrArgument, func() { x.PadWith(PadReflect, odd...) }},
		"too many axes":                {ErrArgument, func() { x.PadWith(PadReflect, 0, 0, 1, 1) }},
		"no such mode":                 {ErrArgument, func() { x.PadWith(9, 1, 1) }},
		"roll, no such axis":           {ErrAxis, func() { x.Roll(1, 1) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}

func TestMeshgrid(t *testing.T) {
	g := Meshgrid(From([]float64{1, 2}), From([]float64{5, 6, 7}))
	near(t, g[0], []float64{1, 1, 1, 2, 2, 2}, 0)
	near(t, g[1], []float64{5, 6, 7, 5, 6, 7}, 0)
	hasShape(t, g[1], 2, 3)
	if err := Try(func() { Meshgrid(Zeros(2), Zeros(2, 2)) }); !errors.Is(err, ErrShape) {
		t.Errorf("%v; want ErrShape", err)
	}
}

func TestSegments(t *testing.T) {
	x := As(Float64).Arange(1, 9).Reshape(4, 2)
	ids := From([]int{2, 0, 2, 2})
	near(t, SegmentSum(x, ids, 4), []float64{3, 4, 0, 0, 13, 16, 0, 0}, 0)
	near(t, SegmentMean(x, ids.Cast(Int32), 4), []float64{3, 4, 0, 0, 13. / 3, 16. / 3, 0, 0}, 1e-15)
	near(t, SegmentSum(Arange(4), ids, 3), []float64{1, 0, 5}, 0)
	hasShape(t, SegmentSum(Zeros(0, 3), As(Int64).Zeros(0), 2), 2, 3)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return SegmentSum(in[0], in[1], 4) }, x, ids)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return SegmentMean(in[0], in[1], 4) }, x, ids)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"an id too large":  {ErrIndex, func() { SegmentSum(x, ids, 2) }},
		"a negative id":    {ErrIndex, func() { SegmentMean(x, From([]int{0, -1, 0, 0}), 2) }},
		"too few ids":      {ErrShape, func() { SegmentSum(x, From([]int{1}), 2) }},
		"a matrix of ids":  {ErrShape, func() { SegmentSum(x, ids.Unsqueeze(1), 2) }},
		"no segments":      {ErrArgument, func() { SegmentSum(x, ids, -1) }},
		"mean of integers": {ErrDType, func() { SegmentMean(Arange(4), ids, 3) }},
		"floats as ids":    {ErrDType, func() { SegmentSum(x, ids.Cast(Float32), 3) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}
