package locus

import (
	"math"
	"testing"
)

// Gradients are checked in float64 against central differences.
const (
	gradEps  = 1e-6
	gradAtol = 1e-5
	gradRtol = 1e-3
	// At most so many elements of an input are moved; the others are left out
	// evenly, so that a check of a large input stays quick.
	gradSamples = 16
)

// gradCheck compares the gradients of f with respect to its floating-point
// inputs, which must be float64, with finite differences. f may give any shape:
// its result is weighed with fixed numbers and summed up.
func gradCheck(t *testing.T, f func(in ...*Tensor) *Tensor, inputs ...*Tensor) {
	t.Helper()
	weighed := func(in ...*Tensor) *Tensor {
		y := f(in...)
		return y.Mul(y.Device().As(y.DType()).Key(NewKey(77)).Rand(y.Shape()...).Add(0.5)).Sum()
	}
	var leaves []*Tensor
	in := make([]*Tensor, len(inputs))
	for i, x := range inputs {
		in[i] = x.Detach()
		if x.DType().IsFloat() {
			if x.DType() != Float64 {
				t.Fatalf("input %d is %s; gradients are checked in float64", i, x.DType())
			}
			in[i] = in[i].RequireGrad()
			leaves = append(leaves, in[i])
		}
	}
	grads := Grad([]*Tensor{weighed(in...)}, leaves)
	next := 0
	for i, x := range inputs {
		if !x.DType().IsFloat() {
			continue
		}
		got := ToSlice[float64](grads[next])
		next++
		values := ToSlice[float64](x.Detach())
		step := max(1, (len(values)+gradSamples-1)/gradSamples)
		for at := 0; at < len(values); at += step {
			move := func(by float64) float64 {
				moved := append([]float64(nil), values...)
				moved[at] += by
				args := make([]*Tensor, len(inputs))
				for j := range args {
					args[j] = inputs[j].Detach()
				}
				args[i] = x.Device().From(moved, x.Shape()...)
				return weighed(args...).Item()
			}
			want := (move(gradEps) - move(-gradEps)) / (2 * gradEps)
			if !(math.Abs(got[at]-want) <= gradAtol+gradRtol*math.Abs(want)) {
				t.Errorf("gradient of input %d at %d is %v; finite differences give %v", i, at, got[at], want)
				return
			}
		}
	}
}

// gradGradCheck checks the gradients of f's gradients in the same way.
func gradGradCheck(t *testing.T, f func(in ...*Tensor) *Tensor, inputs ...*Tensor) {
	t.Helper()
	gradCheck(t, f, inputs...)
	gradCheck(t, func(in ...*Tensor) *Tensor {
		// The gradients as one vector. Inputs without history get one here, so that
		// the function has gradients to give when its inputs are moved too.
		args := make([]*Tensor, len(in))
		var leaves []*Tensor
		for i, x := range in {
			args[i] = x
			if x.DType().IsFloat() {
				if !x.RequiresGrad() {
					args[i] = x.RequireGrad()
				}
				leaves = append(leaves, args[i])
			}
		}
		y := f(args...)
		// Squares make the second derivative of a linear function different from 0.
		grads := Grad([]*Tensor{y.Square().Sum()}, leaves, CreateGraph)
		for i := range grads {
			grads[i] = grads[i].Flatten()
		}
		return Concat(0, grads...)
	}, inputs...)
}

// randomly makes float64 inputs of the given shapes for checks.
func randomly(shapes ...[]int) []*Tensor {
	l := make([]*Tensor, len(shapes))
	for i, s := range shapes {
		l[i] = CPU().As(Float64).Key(NewKey(5).Fold(uint64(i))).Randn(s...)
	}
	return l
}

// near reports elements of got that differ from want.
func near(t *testing.T, got *Tensor, want []float64, tolerance float64) {
	t.Helper()
	values := ToSlice[float64](got.Cast(Float64))
	if len(values) != len(want) {
		t.Fatalf("%d elements of shape %v; want %d", len(values), got.Shape(), len(want))
	}
	for i, v := range values {
		if math.IsNaN(v) && math.IsNaN(want[i]) || v == want[i] {
			continue
		}
		if !(math.Abs(v-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			t.Errorf("element %d is %v; want %v", i, v, want[i])
			return
		}
	}
}

// hasShape reports a tensor of another shape.
func hasShape(t *testing.T, got *Tensor, want ...int) {
	t.Helper()
	if !sameShape(got.Shape(), want) {
		t.Errorf("shape %v; want %v", got.Shape(), want)
	}
}
