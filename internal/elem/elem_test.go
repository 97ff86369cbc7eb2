package elem

import (
	"math"
	"reflect"
	"testing"

	"github.com/locusml/locus/dtype"
)

// Every type is described, and what is written is read.
func TestAll(t *testing.T) {
	for _, d := range dtype.All {
		if Short(d) == "" {
			t.Errorf("%s has no short name", d)
		}
		b := make([]byte, 8)
		if n := reflect.ValueOf(Slice(d, b)).Len(); n != 8/d.Size() {
			t.Errorf("%s: 8 bytes are %d elements", d, n)
		}
		if got := dtype.OfValue(reflect.ValueOf(Slice(d, b)).Index(0).Interface()); got != d {
			t.Errorf("the Go type of %s holds %s", d, got)
		}
		f := OfFloat(d)
		if (f != nil) != d.IsFloat() {
			t.Errorf("%s: a float: %v", d, f != nil)
		}
		if f == nil {
			PutBits(d, b, 1)
			if Get(d, b) != 1 {
				t.Errorf("%s: 1 is read as %v", d, Get(d, b))
			}
			continue
		}
		for _, x := range []float64{0, 1, -1.5, f.Tiny, f.Normal, f.Max, -f.Max, math.Inf(1), 1 + math.Ldexp(1, -f.Digits)} {
			PutBits(d, b, Bits(d, x))
			if got := Get(d, b); got != x || Round(d, x) != x {
				t.Errorf("%s: %g is read as %g, rounded to %g", d, x, got, Round(d, x))
			}
		}
		if Round(d, f.Tiny/4) != 0 || f.Step(1) != math.Ldexp(1, -f.Digits) || f.Step(0) != f.Tiny || f.Step(f.Normal) != f.Tiny || f.Step(-4) != 4*f.Step(1) {
			t.Errorf("%s: steps are %g at 1, %g at 0, %g at -4", d, f.Step(1), f.Step(0), f.Step(-4))
		}
	}
}

func TestNames(t *testing.T) {
	want := []string{"Bool", "Uint8", "Int32", "Int64", "Float16", "BFloat16", "Float32", "Float64"}
	for i, d := range dtype.All {
		if GoName(d) != want[i] {
			t.Errorf("%s is written %s, want %s", d, GoName(d), want[i])
		}
	}
	if GoName(dtype.Invalid) != "Invalid" {
		t.Error(GoName(dtype.Invalid))
	}
}
