package locus_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

type celsius float64

type serial uint16

// Go numbers of every width are operands, and so are those of named types.
func TestGoNumbers(t *testing.T) {
	x := locus.From([]int64{1, 2})
	for _, y := range []any{int8(3), int16(3), int32(3), int64(3), 3, uint8(3), uint16(3), uint32(3), uint64(3), uint(3), uintptr(3), float32(3), 3.0, serial(3), celsius(3), dtype.ToF16(3), dtype.ToBF16(3)} {
		if got := locus.ToSlice[int64](x.Add(y)); got[0] != 4 || got[1] != 5 {
			t.Errorf("%T: %v", y, got)
		}
	}
	wrong := func(kind error, f func()) {
		t.Helper()
		if err := locus.Try(f); !errors.Is(err, kind) {
			t.Errorf("%v, want %v", err, kind)
		}
	}
	wrong(locus.ErrDType, func() { x.Add(uint64(math.MaxUint64)) })
	wrong(locus.ErrDType, func() { x.Add(dtype.ToF16(0.5)) })
	wrong(locus.ErrDType, func() { x.Add(celsius(0.5)) })
	wrong(locus.ErrArgument, func() { x.Add(complex(1, 0)) })
	wrong(locus.ErrArgument, func() { x.Add(nil) })
	if got := locus.From([]float64{1}).Add(uint64(math.MaxUint64)).Item(); got != math.MaxUint64 {
		t.Errorf("uint64 with float64: %v", got)
	}
}

// From takes numbers of every width, and single ones.
func TestFromWidths(t *testing.T) {
	for _, c := range []struct {
		data any
		want locus.DType
		rank int
	}{
		{[]int8{-1, 2}, locus.Int32, 1}, {[]int16{-1, 2}, locus.Int32, 1}, {[]uint16{1, 2}, locus.Int32, 1}, {[]uint32{1, 2}, locus.Int64, 1},
		{[]uint{1, 2}, locus.Int64, 1}, {[]uint64{1, 2}, locus.Int64, 1}, {[2]uint64{1, 2}, locus.Int64, 1}, {[][]int16{{1}, {2}}, locus.Int32, 2}, {[]celsius{1, 2}, locus.Float64, 1},
		{[]serial{7, 2}, locus.Int32, 1}, {3.5, locus.Float64, 0}, {float32(2), locus.Float32, 0}, {7, locus.Int64, 0}, {int16(7), locus.Int32, 0}, {true, locus.Bool, 0},
	} {
		x := locus.From(c.data)
		if x.DType() != c.want || x.Rank() != c.rank {
			t.Errorf("%T: %s of rank %d, want %s of %d", c.data, x.DType(), x.Rank(), c.want, c.rank)
		}
	}
	if got := locus.ToSlice[int32](locus.From([]int8{-128, 127})); got[0] != -128 || got[1] != 127 {
		t.Errorf("int8: %v", got)
	}
	if got := locus.From(int16(-7)); got.Int() != -7 {
		t.Errorf("a scalar: %v", got)
	}
	if err := locus.Try(func() { locus.From([]uint64{math.MaxUint64}) }); !errors.Is(err, locus.ErrDType) {
		t.Errorf("a number that int64 does not hold: %v", err)
	}
}

// Where of two Go numbers chooses the element type as PyTorch does.
func TestWhereNumbers(t *testing.T) {
	c := locus.From([]bool{true, false})
	for _, k := range []struct {
		x, y any
		want locus.DType
	}{{1, 0, locus.Int64}, {uint8(1), int16(0), locus.Int64}, {1.5, 0, locus.Float32}, {1, 0.0, locus.Float32}, {true, false, locus.Bool}, {dtype.ToF16(1), 0, locus.Float32}} {
		if got := locus.Where(c, k.x, k.y); got.DType() != k.want || got.Index(1).Item() != 0 || got.Index(0).Item() == 0 {
			t.Errorf("%T, %T: %v", k.x, k.y, got)
		}
	}
}

func TestAllClose(t *testing.T) {
	x := locus.From([]float64{1, 2, math.Inf(1)})
	if !x.AllClose(x.Add(1e-9), 1e-5, 1e-8) || x.AllClose(x.Add(1e-3), 1e-5, 1e-8) {
		t.Error("wrong")
	}
	if !locus.From([]int64{1 << 40}).AllClose(1<<40, 0, 0) || !locus.Zeros(0).AllClose(1, 0, 0) {
		t.Error("integers, or nothing")
	}
}

func TestGradOf(t *testing.T) {
	w, b := locus.From([]float64{1, 2}).RequireGrad(), locus.From([]float64{3, 4}).RequireGrad()
	grads := locus.GradOf(w.Mul(b).Sum(), w, b)
	if !grads[0].AllClose(b.Detach(), 0, 0) || !grads[1].AllClose(w.Detach(), 0, 0) {
		t.Errorf("%v", grads)
	}
	if err := locus.Try(func() { locus.GradOf(locus.Ones(1), w) }); !errors.Is(err, locus.ErrGrad) {
		t.Error(err)
	}
}

// Ops whose shapes depend on elements wait once or more for a few bytes: the ledger
// has them, and the guard refuses them.
func TestCountingIsInLedger(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	x := gpu.From([]float32{1, 0, 2, 2})
	for name, f := range map[string]func(){
		"NonZero":          func() { x.NonZero() },
		"MaskedSelect":     func() { x.MaskedSelect(x.Gt(1)) },
		"Unique":           func() { x.Unique() },
		"OneHot":           func() { x.Cast(locus.Int64).OneHot(-1) },
		"RepeatInterleave": func() { x.RepeatInterleave(x.Cast(locus.Int64), 0) },
	} {
		before := locus.Ledger().Count(locus.DeviceToHost)
		f()
		if locus.Ledger().Count(locus.DeviceToHost) == before {
			t.Errorf("%s: the ledger has no copy to the CPU", name)
		}
	}
}

// moments checks the mean and the variance of draws.
func moments(t *testing.T, what string, x *locus.Tensor, mean, variance float64) {
	t.Helper()
	x = x.Cast(locus.Float64)
	n := float64(x.Len())
	if got := x.Mean().Item(); math.Abs(got-mean) > 5*math.Sqrt(variance/n)+1e-12 {
		t.Errorf("%s: mean %v, want %v", what, got, mean)
	}
	if got := x.Var().Item(); math.Abs(got-variance) > 0.05*variance {
		t.Errorf("%s: variance %v, want %v", what, got, variance)
	}
}

func TestSamplers(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	key := locus.NewKey(7)
	const n = 40000
	p := []float64{0, 0.1, 0.2, 0.3, 0.4}
	draws := func(d locus.Device) map[string]*locus.Tensor {
		m := d.Key(key)
		w := d.From(p).Expand(n, 5)
		return map[string]*locus.Tensor{
			"uniform": m.Uniform(-1, 3, n), "normal": m.Normal(2, 3, n), "exponential": m.Exponential(4, n),
			"bernoulli": locus.Bernoulli(d.Full(0.3, n), key), "categorical": locus.Categorical(w.Log(), key),
			"multinomial": locus.Multinomial(d.From(p), n, true, key), "rows": locus.Multinomial(w, 1, true, key).Flatten(),
			"once": locus.Multinomial(w, 1, false, key).Flatten(), "pairs": locus.Multinomial(w, 4, false, key),
		}
	}
	here, there := draws(locus.CPU()), draws(gpu)
	for name, x := range here {
		if !there[name].To(locus.CPU()).AllClose(x, 0, 0) {
			t.Errorf("%s: another device draws other numbers", name)
		}
	}
	moments(t, "uniform", here["uniform"], 1, 16./12)
	moments(t, "normal", here["normal"], 2, 9)
	moments(t, "exponential", here["exponential"], 0.25, 1./16)
	moments(t, "bernoulli", here["bernoulli"], 0.3, 0.21)
	if lo, hi := here["uniform"].Min().Item(), here["uniform"].Max().Item(); lo < -1 || hi > 3 {
		t.Errorf("uniform: from %v to %v", lo, hi)
	}
	for _, name := range []string{"categorical", "multinomial", "rows", "once"} {
		for i, want := range p {
			if got := here[name].Eq(i).Sum().Item() / n; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/n) {
				t.Errorf("%s: position %d with %v, want %v", name, i, got, want)
			}
		}
	}
	// Four of four: each once, and never the one of weight 0.
	sorted, _ := here["pairs"].Sort(1, false)
	if !sorted.AllClose(locus.Arange(1, 5).Expand(n, 4), 0, 0) {
		t.Error("without replacement a position was drawn twice, or one of weight 0")
	}
	for name, f := range map[string]func(){
		"Uniform": func() { locus.Uniform(1, 0, 2) }, "Normal": func() { locus.Normal(0, -1, 2) }, "Exponential": func() { locus.Exponential(0, 2) },
		"Multinomial": func() { locus.Multinomial(locus.Ones(3), 4, false, key) },
	} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]func(){
		"Multinomial": func() { locus.Multinomial(locus.Ones(3, 0), 1, true, key) }, "Categorical": func() { locus.Categorical(locus.Ones(), key) },
	} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrShape) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
