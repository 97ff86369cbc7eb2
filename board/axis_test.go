package board

import (
	"math"
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	tests := []struct {
		scale  Scale
		lo, hi float64
		n      int
		want   string
	}{
		{Linear, 0, 1, 5, "0 0.2 0.4 0.6 0.8 1.0"},
		{Linear, 0.33, 2.6, 6, "0.5 1.0 1.5 2.0 2.5"},
		{Linear, 0, 10, 10, "0 1 2 3 4 5 6 7 8 9 10"},
		{Linear, -1, 1, 4, "-1.0 -0.5 0 0.5 1.0"},
		{Linear, 0, 50_000, 5, "0 10k 20k 30k 40k 50k"},
		{Linear, 0, 2_500_000, 5, "0 0.5M 1.0M 1.5M 2.0M 2.5M"},
		{Linear, 0, 4e-4, 4, "0 1e-4 2e-4 3e-4 4e-4"},
		{Linear, 0.9995, 1.0005, 5, "0.9996 0.9998 1.0000 1.0002 1.0004"},
		{Linear, 1e20, 3e20, 2, "1e20 2e20 3e20"},
		{Log, 1e-4, 1, 8, "1e-4 0.001 0.01 0.1 1"},
		{Log, 1, 100, 8, "1 2 5 10 20 50 100"},
		{Log, 1e-12, 1e12, 6, "1e-12 1e-8 1e-4 1 1e4 1e8 1e12"},
		{Log, 0.42, 0.48, 3, "0.42 0.44 0.46 0.48"}, // too narrow for powers of ten
	}
	for _, test := range tests {
		var labels []string
		for _, tick := range (axis{test.scale, test.lo, test.hi}).ticks(test.n) {
			labels = append(labels, tick.label)
			if at := (axis{test.scale, test.lo, test.hi}).at(tick.value); at < -1e-6 || at > 1+1e-6 {
				t.Errorf("tick %v lies outside", tick)
			}
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%v %v..%v: got %s, want %s", test.scale, test.lo, test.hi, got, test.want)
		}
	}
}

func TestFitAxis(t *testing.T) {
	inf := math.Inf(1)
	tests := []struct {
		name   string
		scale  Scale
		limits [2]float64
		lo, hi float64
		want   [2]float64
	}{
		{"limits win", Linear, [2]float64{-1, 1}, 5, 6, [2]float64{-1, 1}},
		{"margin", Linear, [2]float64{}, 10, 20, [2]float64{9.5, 20.5}},
		{"near zero", Linear, [2]float64{}, 0.01, 1, [2]float64{0, 1.0495}},
		{"one value", Linear, [2]float64{}, 5, 5, [2]float64{4.5, 5.5}},
		{"one zero", Linear, [2]float64{}, 0, 0, [2]float64{-1, 1}},
		{"nothing", Linear, [2]float64{}, inf, -inf, [2]float64{0, 1.05}},
		{"log", Log, [2]float64{}, 1, 100, [2]float64{0.794, 125.9}},
		{"log of nothing", Log, [2]float64{}, inf, -inf, [2]float64{0.0891, 1.122}},
	}
	for _, test := range tests {
		a := fitAxis(test.scale, test.limits, test.lo, test.hi, 0.05)
		if math.Abs(a.lo-test.want[0]) > 1e-3*math.Abs(test.want[1]) || math.Abs(a.hi-test.want[1]) > 1e-3*test.want[1] {
			t.Errorf("%s: got %v..%v, want %v", test.name, a.lo, a.hi, test.want)
		}
	}
}

func FuzzAxis(f *testing.F) {
	f.Add(0.0, 1.0, 5, false)
	f.Add(5e-324, math.MaxFloat64, 5, true)
	f.Add(-math.MaxFloat64, math.MaxFloat64, 7, false)
	f.Add(1.0, 1+1e-16, 7, true)
	f.Fuzz(func(t *testing.T, lo, hi float64, n int, log bool) {
		if math.IsNaN(lo+hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) || lo > hi || n < 1 || n > 50 || log && lo <= 0 {
			return
		}
		scale := Linear
		if log {
			scale = Log
		}
		a := fitAxis(scale, [2]float64{}, lo, hi, 0.05)
		if !(a.lo < a.hi) {
			t.Errorf("axis from %v to %v", a.lo, a.hi)
		}
		if ticks := a.ticks(n); len(ticks) > 3*n+6 {
			t.Errorf("%d ticks, want about %d", len(ticks), n)
		}
	})
}
