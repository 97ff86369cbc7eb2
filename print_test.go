package locus_test

import (
	"math"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestPrinting(t *testing.T) {
	g := virtualGPUs[1].String()
	for name, c := range map[string]struct {
		x    *locus.Tensor
		want string
	}{
		"ones":    {virtualGPUs[1].Ones(2, 3), "[[1 1 1]\n [1 1 1]] float32 (2, 3) on " + g},
		"scalar":  {locus.Full(1.5), "1.5000 float32 () on cpu"},
		"mixed":   {locus.From([]float64{1, -0.25, 10}), "[ 1.0000 -0.2500 10.0000] float64 (3,) on cpu"},
		"whole":   {locus.From([]int{1, -20}), "[  1 -20] int64 (2,) on cpu"},
		"bool":    {locus.From([]bool{true, false}), "[ true false] bool (2,) on cpu"},
		"special": {locus.From([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 2}), "[ nan  inf -inf    2] float64 (4,) on cpu"},
		"wide":    {locus.From([]float64{1e-9, 1}), "[1.0000e-09 1.0000e+00] float64 (2,) on cpu"},
		"large":   {locus.From([]float64{1e12}), "[1.0000e+12] float64 (1,) on cpu"},
		"empty":   {locus.Zeros(0, 3), "[[]] float32 (0, 3) on cpu"},
		"three":   {locus.Arange(8).Reshape(2, 2, 2), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]] int64 (2, 2, 2) on cpu"},
		"half":    {locus.As(locus.BFloat16).Full(0.5, 1), "[0.5000] bfloat16 (1,) on cpu"},
	} {
		if got := c.x.String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	long := locus.Arange(30).Cast(locus.Float64).Add(0.5).String()
	for _, line := range strings.Split(long[:strings.Index(long, "]")], "\n") {
		if len(line) > 80 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

// Of a large tensor on a GPU only what is shown is copied.
func TestPrintingIsSummarized(t *testing.T) {
	x := virtualGPUs[0].Arange(1e6).Reshape(1000, 1000)
	locus.ResetLedger()
	s := x.String()
	want := "[[     0      1      2 …    997    998    999]\n"
	if !strings.HasPrefix(s, want) || !strings.Contains(s, "\n …\n") || !strings.HasSuffix(s, "999999]] int64 (1000, 1000) on "+virtualGPUs[0].String()) {
		t.Error(s)
	}
	if n := locus.Ledger().Bytes(locus.DeviceToHost); n > 36*8 {
		t.Errorf("%d bytes were copied", n)
	}
}
