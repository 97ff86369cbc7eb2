package locus

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// refused fails the test unless f panics with an *Error of the given kind.
func refused(t *testing.T, what string, kind error, f func()) {
	t.Helper()
	if err := Try(f); !errors.Is(err, kind) {
		t.Errorf("%s: got %v, want %v", what, err, kind)
	}
}

// TestSillySizes has what used to hang, to end the process or to be accepted.
func TestSillySizes(t *testing.T) {
	const huge = 1 << 40
	x := Ones(1, 2, 7, 5)
	for what, f := range map[string]func(){
		"AdaptiveAvgPool2D, huge":     func() { AdaptiveAvgPool2D(x, huge) },
		"AdaptiveAvgPool2D, Same":     func() { AdaptiveAvgPool2D(x, Same) },
		"AdaptiveMaxPool1D, huge":     func() { AdaptiveMaxPool1D(Ones(2, 7), huge) },
		"Interpolate, huge":           func() { Interpolate(x, huge, InterpolateNearest) },
		"Interpolate, Same":           func() { Interpolate(x, Same, InterpolateNearest) },
		"MaxPool2D, huge":             func() { MaxPool2D(x, huge, PoolOptions{}) },
		"Conv2D, huge stride":         func() { Conv2D(x, Ones(1, 2, 3, 3), nil, ConvOptions{Stride: huge}) },
		"HW":                          func() { HW(huge, 1) },
		"Chunk":                       func() { x.Chunk(huge, 0) },
		"Chunk, negative":             func() { x.Chunk(-1, 0) },
		"Split of nothing":            func() { Zeros(huge, 0).Split(1, 0) },
		"Chunk of nothing":            func() { Zeros(huge, 0).Chunk(huge, 0) },
		"Vmap over nothing":           func() { Vmap(func(a ...*Tensor) *Tensor { return a[0] })(Zeros(huge, 0)) },
		"Key.Split":                   func() { NewKey(1).Split(1 << 32) },
		"Key.Split, negative":         func() { NewKey(1).Split(-1) },
		"AddVirtualGPUs":              func() { AddVirtualGPUs(huge, 0) },
		"Eye of three sizes":          func() { Eye(1, 2, 3) },
		"R of two steps":              func() { R(0, 1, 2, 3) },
		"Unfold of an empty image":    func() { Unfold(Ones(0, 1, 1<<14, 1<<14), 1<<13, WindowOptions{}) },
		"Try of nil":                  func() { panic(Try(nil)) },
		"NoGrad of nil":               func() { NoGrad(nil) },
		"Scoped of nil":               func() { Scoped(nil) },
		"WithSlice of nil":            func() { WithSlice[float32](x, nil) },
		"ValueAndGrad of nil":         func() { ValueAndGrad(nil) },
		"Vmap of nil":                 func() { Vmap(nil) },
		"VJP of nil":                  func() { VJP(nil, x) },
		"JVP of nil":                  func() { JVP(nil, nil, nil) },
		"Checkpoint of nil":           func() { Checkpoint(nil, x) },
		"Custom of nil":               func() { Custom("mine", nil, nil, x) },
		"ValueAndGrad giving nil":     func() { ValueAndGrad(func(...*Tensor) *Tensor { return nil })(x) },
		"Checkpoint giving nil":       func() { Checkpoint(func(...*Tensor) *Tensor { return nil }, x.RequireGrad()) },
		"ValueAndGrad of a nil":       func() { ValueAndGrad(func(a ...*Tensor) *Tensor { return a[0] })(nil) },
		"a scope that is nil":         func() { (*Scope)(nil).Use(x) },
		"a scope that is zero":        func() { new(Scope).Keep(x) },
		"UnmarshalText into nothing":  func() { (*Device)(nil).UnmarshalText([]byte("cpu")) },
		"Where with nil in one place": func() { x.Where(nil, x) },
	} {
		refused(t, what, ErrArgument, f)
	}
	for what, f := range map[string]func(){
		"Eye(-1)":                    func() { Eye(-1) },
		"Eye(2, -1)":                 func() { Eye(2, -1) },
		"PixelShuffle, square is 0":  func() { PixelShuffle(x, 1<<32) },
		"PixelUnshuffle":             func() { PixelUnshuffle(x, 1<<32) },
		"Pad, less than all numbers": func() { x.Pad(0, math.MinInt, 0) },
		"Repeat of nine axes":        func() { Ones(1, 1, 1, 1, 1, 0).Repeat(huge, huge, 1, 1, 1, 1) },
	} {
		refused(t, what, ErrShape, f)
	}
	// What cannot exist is refused before the steps to it take gigabytes.
	for what, f := range map[string]func(){
		"AdaptiveAvgPool2D": func() { AdaptiveAvgPool2D(x, 1<<28) },
		"Interpolate":       func() { Interpolate(x, 1<<28, InterpolateBilinear) },
		"Eye":               func() { Eye(1 << 28) },
		"TriangularMask":    func() { TriangularMask(1<<28, 1<<28, 0) },
		"OneHot":            func() { As(Int64).Ones(1 << 12).OneHot(1 << 40) },
	} {
		CPU().ResetPeak()
		before := CPU().MemoryStats().Peak
		refused(t, what, ErrOutOfMemory, f)
		if got := CPU().MemoryStats().Peak - before; got > 1<<20 {
			t.Errorf("%s took %d bytes first", what, got)
		}
	}
	// Fold divided by a number of window elements that had overflown to 0.
	refused(t, "Fold", ErrArgument, func() { Fold(Ones(1, 4, 4), HW(3, 3), Pair(1<<32), WindowOptions{}) })
}

// TestEmptyResults has indices outside their axis where nothing is computed.
func TestEmptyResults(t *testing.T) {
	index := From([]int64{7})
	for what, f := range map[string]func(){
		"Take":       func() { Zeros(3, 0).Take(0, index) },
		"Take, none": func() { Zeros(0, 0).Take(0, From([]int64{0})) },
		"Embedding":  func() { Embedding(Zeros(3, 0), index) },
		"IndexAdd":   func() { Zeros(3, 0).IndexAdd(0, index, Zeros(1, 0)) },
		"ScatterAdd": func() { Zeros(0, 3).ScatterAdd(0, From([]int64{0, 0, 0}, 1, 3), Zeros(1, 3)) },
		"SegmentSum": func() { SegmentSum(Zeros(1, 0), index, 3) },
	} {
		refused(t, what, ErrIndex, f)
	}
	if got := Zeros(3, 0).Take(0, From([]int64{2, 0})).Shape(); !reflect.DeepEqual(got, []int{2, 0}) {
		t.Errorf("Take of empty rows has shape %v", got)
	}
	Zeros(3, 0).IndexAdd(0, From([]int64{2}), Zeros(1, 0))
	// On a GPU the next wait says so, as for other indices. No memory is needed for a huge axis.
	gpu := AddVirtualGPUs(1, 1<<20)[0]
	gpu.Zeros(1<<40, 0).Take(0, gpu.From([]int64{1<<40 - 1}))
	if err := gpu.Synchronize(); err != nil {
		t.Error(err)
	}
	refused(t, "Take on a GPU", ErrIndex, func() {
		gpu.Zeros(1<<40, 0).Take(0, gpu.From([]int64{1 << 40}))
		if err := gpu.Synchronize(); err != nil {
			panic(err)
		}
	})
}

// TestUnmadeTensors calls every method of a tensor on nil and on a zero value, and
// passes both: ErrArgument, never a panic of the language's.
func TestUnmadeTensors(t *testing.T) {
	whole := Ones(2, 3).RequireGrad()
	for _, bad := range []*Tensor{nil, {}, new(Tensor)} {
		v := reflect.ValueOf(bad)
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			if name == "String" { // printing is how one finds out
				if s := bad.String(); !strings.HasPrefix(s, "<") {
					t.Errorf("String of an unmade tensor: %q", s)
				}
				continue
			}
			args := func(m reflect.Value, tensor *Tensor) []reflect.Value {
				var in []reflect.Value
				for j := range m.Type().NumIn() {
					if m.Type().IsVariadic() && j == m.Type().NumIn()-1 {
						break
					}
					in = append(in, reflect.Zero(m.Type().In(j)))
					switch m.Type().In(j) {
					case reflect.TypeFor[*Tensor](), reflect.TypeFor[any]():
						in[j] = reflect.ValueOf(tensor)
					}
				}
				return in
			}
			refused(t, name+" of an unmade tensor", ErrArgument, func() { v.Method(i).Call(args(v.Method(i), whole)) })
			m := reflect.ValueOf(whole).Method(i)
			if in := args(m, bad); reflect.ValueOf(in).Len() > 0 && hasTensor(in) {
				refused(t, name+" with an unmade tensor", ErrArgument, func() { m.Call(in) })
			}
		}
		for what, f := range map[string]func(){
			"Concat":    func() { Concat(0, whole, bad) },
			"Stack":     func() { Stack(0, bad, whole) },
			"Grad":      func() { Grad([]*Tensor{whole.Sum()}, []*Tensor{bad}) },
			"Grad of":   func() { Grad([]*Tensor{bad}, []*Tensor{whole}) },
			"Attention": func() { Attention(whole, whole, bad, AttentionOptions{}) },
			"BatchNorm": func() { BatchNorm(bad, nil, nil, 0) },
			"Linear":    func() { Linear(whole, bad, nil) },
			"ToSlice":   func() { ToSlice[float32](bad) },
			"Scope.Use": func() { NewScope().Use(bad) },
			"Meshgrid":  func() { Meshgrid(From([]float32{1}), bad) },
		} {
			refused(t, what+" with an unmade tensor", ErrArgument, f)
		}
	}
}

func hasTensor(in []reflect.Value) bool {
	for _, v := range in {
		if v.Type() == reflect.TypeFor[*Tensor]() {
			return true
		}
	}
	return false
}

// TestWideWindows checks windows that reach over all channels against ones that
// just do, and the sizes of adaptive windows, which are computed, against a count.
func TestWideWindows(t *testing.T) {
	x := CPU().Key(NewKey(1)).Rand(2, 3, 4)
	narrow := LocalResponseNorm(x, 7, 7e-3, 0.75, 1)
	wide := LocalResponseNorm(x, 1<<40, 1e-3*(1<<40), 0.75, 1)
	if d := narrow.Sub(wide).Abs().Max().Item(); d > 1e-6 {
		t.Errorf("a window of 2⁴⁰ channels differs by %v from one over all", d)
	}
	for n := 1; n < 40; n++ {
		for out := 1; out < 50; out++ {
			x := Arange(float64(n)).Cast(Float32).Reshape(1, n)
			want := make([]float32, out)
			for j := range want {
				want[j] = float32(((j+1)*n+out-1)/out - 1)
			}
			if got := ToSlice[float32](AdaptiveMaxPool1D(x, out)); !reflect.DeepEqual(got, want) {
				t.Fatalf("%d to %d: %v, want %v", n, out, got, want)
			}
		}
	}
}

// TestNoChannels has convolutions of nothing, whose results are zeros: of one
// channel they divided by the number of elements.
func TestNoChannels(t *testing.T) {
	for _, dt := range []DType{Float32, Float64, BFloat16} {
		for _, out := range []int{1, 3} {
			y := ConvTranspose2D(As(dt).Ones(2, 0, 4, 4), As(dt).Ones(0, out, 3, 3), nil, ConvTransposeOptions{})
			if got := y.Abs().Sum().Item(); got != 0 || y.Dim(1) != out {
				t.Errorf("%s: the transpose to %d channels has shape %v and sum %v", dt, out, y.Shape(), got)
			}
		}
	}
}

// TestOffsets checks that triangles beyond the corners are all or nothing.
func TestOffsets(t *testing.T) {
	x := Ones(2, 3)
	for offset, want := range map[int]float64{math.MaxInt: 6, 1 << 62: 6, 3: 6, math.MinInt: 0, -2: 0} {
		if got := x.Tril(offset).Sum().Item(); got != want {
			t.Errorf("Tril(%d) keeps %v, want %v", offset, got, want)
		}
		upper := 6 - want
		if got := x.Triu(offset).Sum().Item(); got != upper {
			t.Errorf("Triu(%d) keeps %v, want %v", offset, got, upper)
		}
	}
}

// TestRepeatManyAxes repeats where the view would have too many axes.
func TestRepeatManyAxes(t *testing.T) {
	x := Arange(6).Reshape(1, 1, 1, 2, 3)
	got := x.Repeat(2, 1, 1, 3, 2)
	want := Concat(0, x, x)
	want = Concat(3, want, want, want)
	want = Concat(4, want, want)
	if !reflect.DeepEqual(ToSlice[int64](got), ToSlice[int64](want)) || !reflect.DeepEqual(got.Shape(), want.Shape()) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestEnumNames prints values that do not exist.
func TestEnumNames(t *testing.T) {
	for want, v := range map[string]interface{ String() string }{
		"TransferKind(9)": TransferKind(9), "GuardLevel(7)": GuardLevel(7), "Reduction(7)": Reduction(7), "Activation(99)": Activation(99), "dtype(77)": DType(77),
		"wait": Wait, "disallow": Disallow, "mean": ReduceMean, "relu": ReluActivation, "float32": Float32,
	} {
		if got := v.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
