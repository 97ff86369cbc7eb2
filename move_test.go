package locus_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// places are the devices that tests move between: the CPU, two virtual GPUs, and
// the real ones of the machine.
func places() []locus.Device {
	l := append([]locus.Device{locus.CPU()}, virtualGPUs...)
	for _, info := range locus.Devices() {
		if info.Device.IsGPU() && info.Device.Index() < virtualGPUs[0].Index() {
			l = append(l, info.Device)
		}
	}
	return l
}

func TestToIsTheSameTensorWhenThere(t *testing.T) {
	for _, d := range places() {
		x := d.Ones(2, 3)
		if x.To(d) != x {
			t.Errorf("%s: To made a copy", d)
		}
		c := x.CopyTo(d)
		if c == x || c.SharesMemory(x) || c.Device() != d {
			t.Errorf("%s: CopyTo did not copy", d)
		}
	}
}

func TestMovingKeepsValues(t *testing.T) {
	want := []float32{0, 1, 2, 3, 4, 5}
	for _, from := range places() {
		for _, to := range places() {
			x := from.From(want, 2, 3)
			for name, y := range map[string]*locus.Tensor{"To": x.To(to), "CopyTo": x.CopyTo(to)} {
				if y.Device() != to || !slices.Equal(locus.ToSlice[float32](y), want) {
					t.Errorf("%s %s to %s: %v", name, from, to, y)
				}
			}
			// A view moves as what it shows, not as what it shares.
			v := x.T().Slice(locus.R(1, 3))
			if got := locus.ToSlice[float32](v.CopyTo(to)); !slices.Equal(got, []float32{1, 4, 2, 5}) {
				t.Errorf("view %s to %s: %v", from, to, got)
			}
			row := x.Index(1)
			if got := locus.ToSlice[float32](row.To(to)); !slices.Equal(got, []float32{3, 4, 5}) {
				t.Errorf("row %s to %s: %v", from, to, got)
			}
			if e := from.Zeros(0, 3).To(to); e.Len() != 0 || e.Device() != to {
				t.Errorf("empty %s to %s: %v", from, to, e)
			}
		}
	}
}

func TestResultsLiveWithTheirOperands(t *testing.T) {
	for _, d := range places() {
		x := d.Rand(4, 4)
		for name, y := range map[string]*locus.Tensor{
			"add": x.Add(x), "scalar": x.Mul(2), "exp": x.Exp(), "sum": x.Sum(), "matmul": x.MatMul(x), "view": x.T(),
			"cast": x.Cast(locus.Int64), "concat": locus.Concat(0, x, x), "where": x.Gt(0.5).Where(x, 0), "argmax": x.ArgMax(0),
		} {
			if y.Device() != d {
				t.Errorf("%s of a tensor on %s is on %s", name, d, y.Device())
			}
		}
	}
}

func TestMixingDevicesNamesTheFix(t *testing.T) {
	a, b := virtualGPUs[0].Ones(2, 3), virtualGPUs[1].Ones(3)
	ops := map[string]func(){
		"add":      func() { a.Add(b) },
		"matmul":   func() { a.MatMul(b) },
		"where":    func() { a.Gt(0).Where(a, b) },
		"concat":   func() { locus.Concat(0, b, locus.Ones(3)) },
		"gather":   func() { b.Gather(0, locus.Arange(2)) },
		"zero-dim": func() { a.Add(locus.Ones()) },
	}
	for name, f := range ops {
		var e *locus.Error
		if err := locus.Try(f); !errors.As(err, &e) || e.Kind != locus.ErrDevice {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := locus.Try(func() { a.Add(b) })
	for _, part := range []string{"Add", "operand 0: float32 (2, 3) on " + a.Device().String(), "operand 1: float32 (3,) on " + b.Device().String(), fmt.Sprintf(".To(locus.GPU(%d))", a.Device().Index())} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	var e *locus.Error
	errors.As(err, &e)
	if len(e.Operands) != 2 || e.Operands[1].Device != b.Device() || e.Op != "Add" {
		t.Errorf("%+v", e)
	}
	if got := a.Add(b.To(a.Device())).Sum().Item(); got != 12 {
		t.Error("after the fix:", got)
	}
}

// A tensor that is freed right after a copy out of it was queued does not
// disturb the copy.
func TestFreeingTheSourceOfACopy(t *testing.T) {
	for range 50 {
		x := locus.Full(3, 1<<16)
		y := x.To(virtualGPUs[0])
		x.Free()
		locus.Full(5, 1<<16) // likely takes x's memory
		z := y.To(virtualGPUs[1])
		y.Free()
		virtualGPUs[0].Full(7, 1<<16)
		if got := z.Sum().Item(); got != 3<<16 {
			t.Fatal(got)
		}
	}
}
