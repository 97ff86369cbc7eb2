package locus

import (
	"fmt"
	"slices"
	"testing"
)

// eachNetwork computes a loss of leaves in which a gradient comes in several parts: from
// several uses, from slices, through a conversion, and not at all.
func eachNetwork(d Device, passed func(name string)) (loss *Tensor, leaves []*Tensor) {
	k := d.Key(NewKey(7))
	leaf := func(shape ...int) *Tensor {
		x := k.Randn(shape...).RequireGrad()
		leaves = append(leaves, x)
		return x
	}
	first, front, twice, cut, half, bias, unused := leaf(4, 4), leaf(4, 4), leaf(4, 4), leaf(4, 8), leaf(4, 4), leaf(4), leaf(3)
	_ = unused
	mark := func(name string, x *Tensor) *Tensor {
		return Custom(name, func(a ...*Tensor) *Tensor { return a[0].Mul(1) },
			func(_ []*Tensor, _, g *Tensor) []*Tensor { passed(name); return []*Tensor{g.Mul(1)} }, x)
	}
	x := k.Randn(4, 4)
	h := mark("first", x.MatMul(first).Tanh())
	h = mark("front", front.MatMul(h)) // the leaf is the first operand
	h = mark("twice", h.MatMul(twice).Add(twice.Mul(h)))
	p := cut.Chunk(2, 1)
	h = mark("cut", h.Mul(p[0]).Add(p[1]))
	h = mark("half", h.Cast(BFloat16).MatMul(half.Cast(BFloat16)).Cast(Float32))
	h = h.Add(bias).Add(first.Sum().Mul(0.01)) // first is used at the end too
	return h.Square().Mean(), leaves
}

// GradEach hands out what Grad returns, to the bit, each gradient when it is final and
// before the backward pass goes on below it.
func TestGradEach(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		for _, opts := range [][]GradOption{nil, {FreeGraph}, {RetainGraph}, {CreateGraph}} {
			loss, leaves := eachNetwork(d, func(string) {})
			var want [][]float64
			for _, g := range Grad([]*Tensor{loss}, leaves, opts...) {
				want = append(want, bitsOf(g.Detach().Add(0)))
			}
			var events []string
			names := []string{"first", "front", "twice", "cut", "half", "bias", "unused"}
			loss, leaves = eachNetwork(d, func(name string) { events = append(events, "below "+name) })
			got := make([][]float64, len(leaves))
			GradEach([]*Tensor{loss}, leaves, func(i int, g *Tensor) {
				if got[i] != nil {
					t.Errorf("%s was handed out twice", names[i])
				}
				got[i] = bitsOf(g.Detach().Add(0))
				events = append(events, names[i])
				g.Free()
			}, opts...)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("%s, %v: the gradient of %s is %v, want %v", d, opts, names[i], got[i], want[i])
				}
			}
			at := func(what string) int { return slices.Index(events, what) }
			for _, pair := range [][2]string{{"bias", "below half"}, {"cut", "below twice"}, {"twice", "below front"}, {"front", "below first"}} {
				if at(pair[0]) < 0 || at(pair[0]) > at(pair[1]) {
					t.Errorf("%s, %v: %s does not come before %s: %v", d, opts, pair[0], pair[1], events)
				}
			}
			if at("unused") != len(events)-1 {
				t.Errorf("%s, %v: an input without a gradient is not the last: %v", d, opts, events)
			}
		}
	}
}

// Gradients that wait to be converted together do not wait for the end where somebody
// wants them early, and an input that is there twice, or no leaf, is told of like others.
func TestGradEachConverts(t *testing.T) {
	const n = 1100 // two of them are more than lateBytes
	var leaves []*Tensor
	h := Ones(2, n).Cast(BFloat16)
	var events []string
	for i := range 4 {
		w := Full(0.01, n, n).RequireGrad()
		leaves = append(leaves, w)
		h = Custom("mark", func(a ...*Tensor) *Tensor { return a[0].Mul(1) },
			func(_ []*Tensor, _, g *Tensor) []*Tensor {
				events = append(events, fmt.Sprint("above ", i))
				return []*Tensor{g.Mul(1)}
			},
			h.MatMul(w.Cast(BFloat16)))
	}
	GradEach([]*Tensor{h.Cast(Float32).Sum()}, leaves, func(i int, g *Tensor) {
		events = append(events, fmt.Sprint(i))
		if g.DType() != Float32 {
			t.Errorf("gradient %d is %s", i, g.DType())
		}
	}, FreeGraph)
	if want := []string{"above 3", "above 2", "3", "2", "above 1", "above 0", "1", "0"}; !slices.Equal(events, want) {
		t.Errorf("%v, want %v", events, want)
	}

	x := Ones(3).RequireGrad()
	y := x.Mul(2)
	var at []int
	GradEach([]*Tensor{y.Square().Sum()}, []*Tensor{x, y, x}, func(i int, g *Tensor) {
		at = append(at, i)
		want := []float64{8, 4, 8}[i]
		if got := g.Sum().Item(); got != 3*want {
			t.Errorf("input %d: %v, want %v", i, got, 3*want)
		}
		g.Free()
	})
	if !slices.Equal(at, []int{1, 0, 2}) {
		t.Errorf("order %v", at)
	}
}
