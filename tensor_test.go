package locus_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

func values(t *locus.Tensor) []float64 { return locus.ToSlice[float64](t.Cast(locus.Float64)) }

func expect(t *testing.T, name string, got *locus.Tensor, shape []int, want ...float64) {
	t.Helper()
	if !slices.Equal(got.Shape(), shape) || !slices.EqualFunc(values(got), want, same) {
		t.Errorf("%s = %v, want %v of shape %v", name, got, want, shape)
	}
}

// same is equality up to rounding; NaN is NaN.
func same(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b))
}

func TestCreation(t *testing.T) {
	for _, d := range places() {
		expect(t, "Zeros", d.Zeros(2), []int{2}, 0, 0)
		expect(t, "Ones", d.Ones(1, 2), []int{1, 2}, 1, 1)
		expect(t, "Full", d.Full(2.5, 2), []int{2}, 2.5, 2.5)
		expect(t, "scalar", d.Full(7), nil, 7)
		expect(t, "empty", d.Zeros(2, 0, 3), []int{2, 0, 3})
		expect(t, "Arange", d.Arange(3), []int{3}, 0, 1, 2)
		expect(t, "Arange", d.Arange(5, 1, -2), []int{2}, 5, 3)
		expect(t, "Arange", d.Arange(0, 1, 0.25), []int{4}, 0, 0.25, 0.5, 0.75)
		expect(t, "Arange", d.Arange(3, 1), []int{0})
		expect(t, "Linspace", d.Linspace(0, 1, 5), []int{5}, 0, 0.25, 0.5, 0.75, 1)
		expect(t, "Linspace", d.Linspace(3, 9, 1), []int{1}, 3)
		expect(t, "Eye", d.Eye(2), []int{2, 2}, 1, 0, 0, 1)
		expect(t, "Eye", d.Eye(2, 3), []int{2, 3}, 1, 0, 0, 0, 1, 0)
		for _, dt := range dtype.All {
			x := d.As(dt).Ones(3)
			if x.DType() != dt {
				t.Errorf("%s: %v", dt, x)
			}
			expect(t, "Ones "+dt.String(), x, []int{3}, 1, 1, 1)
		}
		if d.Arange(3).DType() != locus.Int64 || d.Arange(0, 1, 0.5).DType() != locus.Float32 || d.As(locus.Float64).Arange(3).DType() != locus.Float64 {
			t.Error("Arange's dtypes")
		}
	}
}

func TestFrom(t *testing.T) {
	for _, d := range places() {
		expect(t, "number", d.From(3.5), nil, 3.5)
		expect(t, "slice", d.From([]int32{1, 2}), []int{2}, 1, 2)
		expect(t, "matrix", d.From([][]float32{{1, 2, 3}, {4, 5, 6}}), []int{2, 3}, 1, 2, 3, 4, 5, 6)
		expect(t, "array", d.From([2][1][2]int{{{1, 2}}, {{3, 4}}}), []int{2, 1, 2}, 1, 2, 3, 4)
		expect(t, "shaped", d.From([]float32{1, 2, 3, 4}, 2, -1), []int{2, 2}, 1, 2, 3, 4)
		expect(t, "empty", d.From([]float32{}), []int{0})
		expect(t, "empty rows", d.From([][]float32{{}, {}}), []int{2, 0})
		expect(t, "bools", d.From([]bool{true, false}), []int{2}, 1, 0)
		expect(t, "half", d.From([]dtype.F16{dtype.ToF16(1.5)}), []int{1}, 1.5)
		expect(t, "cast", d.As(locus.BFloat16).From([]float64{1, 2}), []int{2}, 1, 2)
		for dt, v := range map[locus.DType]any{locus.Int64: []int{1}, locus.Int32: []int32{1}, locus.Uint8: []uint8{1}, locus.Bool: []bool{true},
			locus.Float32: []float32{1}, locus.Float64: []float64{1}, locus.Float16: []dtype.F16{1}, locus.BFloat16: []dtype.BF16{1}} {
			if got := d.From(v).DType(); got != dt {
				t.Errorf("From(%T) is %s", v, got)
			}
		}
	}
	for name, bad := range map[string]struct {
		data any
		kind error
	}{
		"string": {"x", locus.ErrDType}, "nil": {nil, locus.ErrDType}, "struct": {struct{}{}, locus.ErrDType}, "strings": {[]string{"a"}, locus.ErrDType},
		"complex": {[]complex64{1}, locus.ErrDType}, "ragged": {[][]int{{1, 2}, {3}}, locus.ErrShape}, "ragged inside": {[][][]int{{{1}}, {{1, 2}}}, locus.ErrShape},
	} {
		if err := locus.Try(func() { locus.From(bad.data) }); !errors.Is(err, bad.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The program may change its slice afterwards.
	s := make([]float32, 1000)
	x := virtualGPUs[0].From(s)
	s[0] = 1
	if x.Sum().Item() != 0 {
		t.Error("the tensor shares the program's slice")
	}
}

func TestToSlice(t *testing.T) {
	x := virtualGPUs[1].From([][]int{{1, 2}, {3, 4}})
	if got := locus.ToSlice[int](x.T()); !slices.Equal(got, []int{1, 3, 2, 4}) {
		t.Error(got)
	}
	if got := locus.ToSlice[int64](x); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Error(got)
	}
	if err := locus.Try(func() { locus.ToSlice[float32](x) }); !errors.Is(err, locus.ErrDType) {
		t.Error(err)
	}
	if err := locus.Try(func() { locus.CopyToSlice(make([]int64, 3), x) }); !errors.Is(err, locus.ErrShape) {
		t.Error(err)
	}
	if err := locus.Try(func() { x.Item() }); !errors.Is(err, locus.ErrShape) {
		t.Error(err)
	}
	big := locus.From([]int64{1<<62 + 1})
	if big.Int() != 1<<62+1 || locus.From(true).Item() != 1 {
		t.Error("scalars are wrong")
	}
}

func TestViewsShareMemory(t *testing.T) {
	x := locus.Arange(24).Reshape(2, 3, 4)
	for name, v := range map[string]*locus.Tensor{
		"reshape": x.Reshape(6, 4), "transpose": x.Transpose(0, 2), "slice": x.Slice(locus.All(), locus.R(0, 3, 2)), "index": x.Index(1),
		"expand": x.Unsqueeze(0).Expand(5, 2, 3, 4), "squeeze": x.Reshape(2, 1, 12).Squeeze(), "flatten": x.Flatten(), "flip": x.Flip(1), "diagonal": x.Diagonal(0, 0, 1),
		"transposed reshape": x.Permute(2, 0, 1).Reshape(4, 1, 2, 3), "split": x.Transpose(0, 1).Reshape(3, 2, 2, 2),
	} {
		if !v.SharesMemory(x) {
			t.Errorf("%s copied", name)
		}
	}
	if x.T().Reshape(24).SharesMemory(x) {
		t.Error("a reshape across a transpose cannot be a view")
	}
}

func TestScalarsFollowTheTensor(t *testing.T) {
	i := locus.From([]int32{5, 7})
	expect(t, "int32+2", i.Add(2), []int{2}, 7, 9)
	if i.Add(2).DType() != locus.Int32 || i.Add(2.0).DType() != locus.Int32 {
		t.Error("a number changed the element type")
	}
	f := locus.As(locus.Float64).Ones(1)
	if f.Mul(float32(0.5)).DType() != locus.Float64 {
		t.Error("a number changed the element type")
	}
	for name, bad := range map[string]func(){
		"fraction": func() { i.Add(2.5) }, "too large": func() { locus.As(locus.Uint8).Ones(1).Add(300) }, "string": func() { i.Add("2") },
		"bool": func() { i.Add(true) }, "nil": func() { i.Add(nil) },
	} {
		if err := locus.Try(bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	var none *locus.Tensor
	if err := locus.Try(func() { i.Add(none) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

func TestNonFiniteNumbersPassThrough(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, d := range places() {
		x := d.From([]float64{inf, -inf, nan, 0, -1})
		expect(t, "add", x.Add(1), []int{5}, inf, -inf, nan, 1, 0)
		expect(t, "div", d.Ones(5).Cast(locus.Float64).Div(x), []int{5}, 0, 0, nan, inf, -1)
		expect(t, "log", x.Log(), []int{5}, inf, nan, nan, -inf, nan)
		expect(t, "max", x.Max(), nil, nan)
		expect(t, "maximum", x.Maximum(0), []int{5}, inf, 0, nan, 0, 0)
		expect(t, "sum", x.Slice(locus.R(0, 2)).Sum(), nil, nan)
		expect(t, "isnan", x.IsNaN(), []int{5}, 0, 0, 1, 0, 0)
		expect(t, "argmax", x.ArgMax(0), nil, 2)
		expect(t, "clamp", x.Clamp(-2, 2), []int{5}, 2, -2, nan, 0, -1)
	}
}

func TestEmptyTensorsWork(t *testing.T) {
	for _, d := range places() {
		x := d.Zeros(0, 3)
		expect(t, "add", x.Add(1), []int{0, 3})
		expect(t, "sum", x.Sum(), nil, 0)
		expect(t, "sum", x.Sum(0), []int{3}, 0, 0, 0)
		expect(t, "matmul", d.Ones(2, 0).MatMul(d.Ones(0, 2)), []int{2, 2}, 0, 0, 0, 0)
		expect(t, "concat", locus.Concat(0, x, d.Ones(1, 3)), []int{1, 3}, 1, 1, 1)
		expect(t, "mean", x.Mean(), nil, math.NaN())
		expect(t, "take", d.Ones(3).Take(0, d.As(locus.Int64).Zeros(0)), []int{0})
		expect(t, "any", x.Gt(0).Any(), nil, 0)
		expect(t, "all", x.Gt(0).All(), nil, 1)
		if err := locus.Try(func() { x.Max() }); !errors.Is(err, locus.ErrShape) {
			t.Error(err)
		}
	}
}

func TestBadInput(t *testing.T) {
	x, i := locus.Ones(2, 3), locus.Arange(3)
	for name, c := range map[string]struct {
		f    func()
		kind error
	}{
		"broadcast":            {func() { x.Add(locus.Ones(2)) }, locus.ErrShape},
		"dtypes":               {func() { x.Add(i) }, locus.ErrDType},
		"inner size":           {func() { x.MatMul(x) }, locus.ErrShape},
		"exp of int":           {func() { i.Exp() }, locus.ErrDType},
		"mean of int":          {func() { i.Mean() }, locus.ErrDType},
		"negative size":        {func() { locus.Zeros(2, -1) }, locus.ErrShape},
		"overflow":             {func() { locus.Zeros(1<<40, 1<<40) }, locus.ErrShape},
		"overflow behind zero": {func() { locus.Zeros(0, 1<<40, 1<<40) }, locus.ErrShape},
		"expand overflow":      {func() { locus.Ones(1, 1).Expand(1<<40, 1<<40) }, locus.ErrShape},
		"too many axes":        {func() { locus.Zeros(1, 1, 1, 1, 1, 1, 1, 1, 1) }, locus.ErrShape},
		"axis":                 {func() { x.Sum(2) }, locus.ErrAxis},
		"axis below":           {func() { x.Sum(-3) }, locus.ErrAxis},
		"axis twice":           {func() { x.Sum(0, -2) }, locus.ErrAxis},
		"position":             {func() { x.Index(2) }, locus.ErrIndex},
		"position below":       {func() { x.Index(-3) }, locus.ErrIndex},
		"reshape":              {func() { x.Reshape(4) }, locus.ErrShape},
		"reshape twice -1":     {func() { x.Reshape(-1, -1) }, locus.ErrShape},
		"permute":              {func() { x.Permute(0, 0) }, locus.ErrAxis},
		"permute short":        {func() { x.Permute(0) }, locus.ErrAxis},
		"squeeze":              {func() { x.Squeeze(0) }, locus.ErrShape},
		"expand":               {func() { x.Expand(3, 3) }, locus.ErrShape},
		"step 0":               {func() { x.Slice(locus.R(0, 1, 0)) }, locus.ErrArgument},
		"gather float":         {func() { x.Gather(0, x) }, locus.ErrDType},
		"gather rank":          {func() { x.Gather(0, i) }, locus.ErrShape},
		"take range":           {func() { x.Take(0, locus.From([]int{2})) }, locus.ErrIndex},
		"take negative":        {func() { x.Take(0, locus.From([]int{-1})) }, locus.ErrIndex},
		"concat":               {func() { locus.Concat(0, x, i) }, locus.ErrDType},
		"concat nothing":       {func() { locus.Concat(0) }, locus.ErrArgument},
		"concat nil":           {func() { locus.Concat(0, x, nil) }, locus.ErrArgument},
		"stack":                {func() { locus.Stack(0, x, locus.Ones(3)) }, locus.ErrShape},
		"where":                {func() { x.Where(x, x) }, locus.ErrDType},
		"where words":          {func() { x.Gt(0).Where("1", 2) }, locus.ErrArgument},
		"topk":                 {func() { x.TopK(4, 1) }, locus.ErrArgument},
		"randint":              {func() { locus.Randint(3, 3, 2) }, locus.ErrArgument},
		"arange forever":       {func() { locus.Arange(0, 1, 0) }, locus.ErrArgument},
		"arange NaN":           {func() { locus.Arange(math.NaN()) }, locus.ErrArgument},
		"cast":                 {func() { x.Cast(0) }, locus.ErrDType},
		"item":                 {func() { x.Item() }, locus.ErrShape},
		"scalar matmul":        {func() { locus.Full(1).MatMul(x) }, locus.ErrShape},
		"grad of int":          {func() { i.RequireGrad() }, locus.ErrGrad},
		"backward":             {func() { x.Sum().Backward() }, locus.ErrGrad},
		"GPU(-1)":              {func() { locus.GPU(-1) }, locus.ErrDevice},
	} {
		var e *locus.Error
		err := locus.Try(c.f)
		if !errors.As(err, &e) || !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		} else if e.Op == "" || e.Msg == "" {
			t.Errorf("%s: the error says too little: %+v", name, e)
		}
	}
	freed := locus.Ones(2)
	view := freed.Reshape(1, 2)
	freed.Free()
	freed.Free()
	for _, f := range []func(){func() { freed.Add(1) }, func() { view.Sum() }, func() { freed.To(virtualGPUs[0]) }, func() { locus.ToSlice[float32](view) }, func() { locus.Ones(2).Mul(view) }} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrFreed) {
			t.Error(err)
		}
	}
}

func TestTryLetsOtherPanicsThrough(t *testing.T) {
	defer func() {
		if r := recover(); r != "other" {
			t.Error(r)
		}
	}()
	locus.Try(func() { panic("other") })
}

func TestRandomNumbersAreTheSameEverywhere(t *testing.T) {
	key := locus.NewKey(42)
	for _, dt := range []locus.DType{locus.Float32, locus.Float64, locus.Float16, locus.BFloat16} {
		want := locus.CPU().Key(key).As(dt)
		for _, d := range virtualGPUs {
			m := d.Key(key).As(dt)
			for name, pair := range map[string][2]*locus.Tensor{
				"Rand": {want.Rand(1001), m.Rand(1001)}, "Randn": {want.Randn(33, 31), m.Randn(33, 31)},
			} {
				if !slices.Equal(values(pair[0]), values(pair[1])) {
					t.Errorf("%s of %s differs on %s", name, dt, d)
				}
			}
		}
	}
	for _, d := range virtualGPUs {
		if !slices.Equal(values(locus.CPU().Key(key).Randint(-5, 5, 1000)), values(d.Key(key).Randint(-5, 5, 1000))) ||
			!slices.Equal(values(locus.CPU().Key(key).Permutation(1000)), values(d.Key(key).Permutation(1000))) {
			t.Errorf("integers differ on %s", d)
		}
	}
	a, b := key.Split(2)[0], key.Split(2)[1]
	if a == b || a != key.Fold(0) || locus.KeyFromBits(a.Bits()) != a {
		t.Error("keys are wrong")
	}
	if slices.Equal(values(locus.CPU().Key(a).Rand(10)), values(locus.CPU().Key(b).Rand(10))) {
		t.Error("two keys give the same numbers")
	}
	locus.Seed(7)
	first := values(locus.Rand(5))
	second := values(locus.Rand(5))
	locus.Seed(7)
	if !slices.Equal(first, values(locus.Rand(5))) || slices.Equal(first, second) {
		t.Error("Seed does not repeat the sequence")
	}
	p := locus.ToSlice[int](locus.Permutation(100))
	slices.Sort(p)
	for i, v := range p {
		if i != v {
			t.Fatal("not a permutation")
		}
	}
	r := locus.Randint(3, 6, 1000)
	if r.Min().Int() != 3 || r.Max().Int() != 5 {
		t.Error("Randint's range")
	}
}
