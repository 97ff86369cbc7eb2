package locus_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/locusml/locus"
)

// A part of a batch gets the numbers that its examples have in the whole, whatever is drawn
// and wherever the part begins.
func TestKeyPart(t *testing.T) {
	k := locus.NewKey(4)
	for _, d := range []locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 64<<20)[0]} {
		for name, draw := range map[string]func(m locus.Maker, shape ...int) *locus.Tensor{
			"uniform":         func(m locus.Maker, s ...int) *locus.Tensor { return m.Rand(s...) },
			"uniform float16": func(m locus.Maker, s ...int) *locus.Tensor { return m.As(locus.Float16).Rand(s...) },
			"uniform float64": func(m locus.Maker, s ...int) *locus.Tensor { return m.As(locus.Float64).Rand(s...) },
			"normal":          func(m locus.Maker, s ...int) *locus.Tensor { return m.Randn(s...) },
			"normal bfloat16": func(m locus.Maker, s ...int) *locus.Tensor { return m.As(locus.BFloat16).Randn(s...) },
			"integers":        func(m locus.Maker, s ...int) *locus.Tensor { return m.Randint(0, 1000, s...) },
		} {
			for _, row := range [][]int{{}, {3}, {5, 1, 7}, {1100}} {
				whole := draw(d.Key(k), append([]int{13}, row...)...)
				for _, p := range [][2]int{{0, 13}, {0, 4}, {4, 5}, {9, 3}, {12, 1}} {
					part := draw(d.Key(k.Part(p[0], p[1])), append([]int{p[1]}, row...)...)
					if want := whole.Narrow(0, p[0], p[0]+p[1]); part.Eq(want).All().Item() != 1 {
						t.Errorf("%s on %s: examples %d to %d of shape %v are others than in the whole", name, d, p[0], p[0]+p[1], row)
					}
				}
			}
		}
	}
	rand := func(k locus.Key, shape ...int) []float32 {
		return locus.ToSlice[float32](locus.CPU().Key(k).Rand(shape...))
	}
	whole := rand(k.Fold(7), 6*2, 3)
	if got := rand(k.Part(4, 2).Fold(7), 2*2, 3); !slices.Equal(got, whole[4*2*3:]) {
		t.Error("two rows an example, of a key that was folded behind Part")
	}
	if got := rand(k.Part(4, 2), 5); !slices.Equal(got, rand(k, 5)) {
		t.Error("what does not belong to examples differs between parts")
	}
	if got := rand(k.Part(4, 2)); got[0] != rand(k)[0] {
		t.Error("a scalar differs between parts")
	}
	if got := rand(k.Part(4, 2).Part(0, 0), 2); !slices.Equal(got, rand(k, 2)) {
		t.Error("the whole batch again")
	}
	if len(rand(k.Part(4, 2), 0, 3)) != 0 {
		t.Error("no rows")
	}
	if k.Part(4, 2).Bits() == k.Bits() || k.Part(0, 2).Bits() != k.Bits() || k.Part(4, 2).First() != 4 {
		t.Error("bits of a part")
	}
	for _, f := range []func(){func() { k.Part(-1, 2) }, func() { k.Part(1, -2) }} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrArgument) {
			t.Error(err)
		}
	}
}

// Masks of parts are those of the whole.
func TestDropoutOfParts(t *testing.T) {
	x := locus.CPU().Key(locus.NewKey(1)).Randn(7, 4, 3)
	k := locus.NewKey(2)
	for name, drop := range map[string]func(x *locus.Tensor, p float64, key locus.Key) *locus.Tensor{
		"Dropout": locus.Dropout, "DropoutChannels": locus.DropoutChannels, "AlphaDropout": locus.AlphaDropout} {
		want := drop(x, 0.4, k)
		got := locus.Concat(0, drop(x.Narrow(0, 0, 3), 0.4, k.Part(0, 3)), drop(x.Narrow(0, 3, 5), 0.4, k.Part(3, 2)), drop(x.Narrow(0, 5, 7), 0.4, k.Part(5, 2)))
		if got.Eq(want).All().Item() != 1 {
			t.Errorf("%s: the masks of parts are not those of the whole", name)
		}
	}
}
