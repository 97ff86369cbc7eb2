package locus

import (
	"strings"
	"testing"
)

// A profile names fused steps by their parts, with the lines of these, and Times finds
// the steps of a program in it.
func TestTimes(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		f := Compile(func(a ...*Tensor) []*Tensor {
			h := a[0].MatMul(a[0])
			return []*Tensor{h.Add(2).
				Exp().Mul(a[0]), h.Sum()}
		})
		x := d.Randn(16, 16)
		for range 3 {
			f.Call(x)
		}
		line := Profile(func() {
			for range 4 {
				f.Call(x)
			}
		})
		var fused *Span
		for i := range line.Spans {
			if line.Spans[i].Name == "add+exp+mul" {
				fused = &line.Spans[i]
			}
		}
		if fused == nil || strings.Count(fused.Site, "compile_times_test.go:") != 2 || fused.Detail == "" {
			t.Fatalf("%s: the fused step is %+v in\n%s", d, fused, line)
		}
		table := f.Times(line)
		for _, want := range []string{": 4 calls\n", "add+exp+mul", "matmul", "sum", "all", "compile_times_test.go:"} {
			if !strings.Contains(table, want) {
				t.Errorf("%s: no %q in\n%s", d, want, table)
			}
		}
		if n := strings.Count(table, "%  "); n != 3 {
			t.Errorf("%s: %d steps in\n%s", d, n, table)
		}
		if got := f.Times(Profile(func() { x.Exp() })); got != "no step of the function ran in the profile\n" {
			t.Errorf("%s: of nothing: %s", d, got)
		}
	}
}

// ProfileCalls shows each call as one span, and recorded programs are replayed meanwhile.
func TestProfileCalls(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		f := Compile(func(a ...*Tensor) []*Tensor {
			h := a[0].MatMul(a[0])
			return []*Tensor{h.MatMul(a[0]).Sum(), h.Sum(0)}
		})
		x := d.Ones(4, 4)
		for range 4 {
			f.Call(x)
		}
		before := f.Explain()
		line := ProfileCalls(func() {
			for range 3 {
				f.Call(x)
			}
			x.Neg()
		})
		count := map[string]int{}
		for _, s := range line.Spans {
			if !s.Host {
				count[s.Name]++
			}
		}
		if count["compiled"] != 3 || count["neg"] != 1 || len(count) != 2 {
			t.Errorf("%s: ran %v", d, count)
		}
		if got := f.Times(line); !strings.Contains(got, ": 3 calls\nas one piece: ") {
			t.Errorf("%s: %s", d, got)
		}
		if d.IsGPU() && !strings.Contains(before, "not recorded") && f.Explain() == before {
			t.Errorf("%s: nothing was replayed:\n%s", d, before)
		}
		if want, got := x.MatMul(x).MatMul(x).Sum().Item(), f.Call(x)[0].Item(); got != want {
			t.Errorf("%s: %v afterwards, want %v", d, got, want)
		}
	}
}

// The explanation says what was not fused, where, and why, and what cannot be.
func TestExplainFusion(t *testing.T) {
	f := Compile(func(a ...*Tensor) []*Tensor {
		return []*Tensor{a[0].Add(2).Exp().MatMul(a[0]).Relu().Sum(), a[0].MatMul(a[0])}
	})
	for range 2 {
		f.Call(Ones(4, 4))
	}
	text := f.Explain()
	for _, want := range []string{"fusion: 2 elementwise steps became 1, 1 stay alone; 5 steps are run in all\n",
		"not fused, 1: no elementwise step makes its operands or uses its result: relu at ", "not elementwise: matmul 2×, sum\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
