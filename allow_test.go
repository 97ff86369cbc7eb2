package locus_test

import (
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func TestAllowNondeterminism(t *testing.T) {
	if locus.AllowNondeterminism(true) {
		t.Error("it is allowed from the start")
	}
	if !locus.AllowNondeterminism(false) {
		t.Error("it was not allowed")
	}
}

// On the CPU the switch changes nothing, to the bit.
func TestNondeterminismOnTheCPU(t *testing.T) {
	train := func() []float32 {
		locus.Seed(3)
		net := nn.Sequential(nn.Conv2D(2, 4, 3, locus.ConvOptions{}), nn.ReLU(), nn.Flatten(), nn.Linear(4*6*6, 3))
		opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
		x, y := locus.Randn(5, 2, 8, 8), locus.Randint(0, 3, 5)
		for range 3 {
			locus.CrossEntropy(net.Forward(x), y, locus.CrossEntropyOptions{}).Backward()
			opt.Step()
		}
		return locus.ToSlice[float32](nn.Parameters(net)[0].Value())
	}
	want := train()
	defer locus.AllowNondeterminism(locus.AllowNondeterminism(true))
	if got := train(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A program is compiled for one setting: under the other another one runs.
func TestCompileByNondeterminism(t *testing.T) {
	traced := 0
	f := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		traced++
		return []*locus.Tensor{a[0].Mul(2).Add(1).Exp()}
	})
	x := locus.Ones(4)
	call := func() {
		for range 4 {
			f.Call(x)
		}
	}
	call()
	before := traced
	call()
	if traced != before {
		t.Fatalf("traced %d times, then %d", before, traced)
	}
	old := locus.AllowNondeterminism(true)
	call()
	locus.AllowNondeterminism(old)
	if traced == before {
		t.Error("the program of the other setting ran")
	}
	before = traced
	call()
	if traced != before {
		t.Error("the first program was forgotten")
	}
}
