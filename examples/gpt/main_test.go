package main

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

func TestFitAndWrite(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 256<<20)[0]
	text, _, _ := strings.Cut(tale, "\n\n")
	var b strings.Builder
	g, err := fit(&b, gpu, text, config{context: 16, features: 32, heads: 2, layers: 1, epochs: 6})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "epoch   6  loss 1.") && !strings.Contains(b.String(), "epoch   6  loss 0.") {
		t.Errorf("want a loss below 2 in epoch 6:\n%s", b.String())
	}
	one := g.write("The ", 40, 0.8, locus.NewKey(0))
	if !strings.HasPrefix(one, "The ") || len([]rune(one)) != 44 {
		t.Errorf("it wrote %q", one)
	}
	if again := g.write("The ", 40, 0.8, locus.NewKey(0)); again != one {
		t.Errorf("the same key gave %q and %q", one, again)
	}
	if other := g.write("The ", 40, 0.8, locus.NewKey(1)); other == one {
		t.Errorf("another key gave the same text %q", one)
	}
}

// What the network says of a position must not depend on what comes after it.
func TestCausal(t *testing.T) {
	g := newGPT(data.NewVocab([]string{"a", "b", "c"}, 1), config{context: 4, features: 8, heads: 2, layers: 2})
	a := g.Forward(locus.From([][]int64{{1, 2, 3, 1}}))
	b := g.Forward(locus.From([][]int64{{1, 2, 1, 3}}))
	if d := a.Narrow(1, 0, 2).Sub(b.Narrow(1, 0, 2)).Abs().Max().Item(); d > 1e-6 {
		t.Errorf("positions 0 and 1 changed by %g with later characters", d)
	}
	if d := a.Narrow(1, 2, 3).Sub(b.Narrow(1, 2, 3)).Abs().Max().Item(); d < 1e-6 {
		t.Error("position 2 does not see its own character")
	}
}

// The draws have the probabilities of the softmax.
func TestDraw(t *testing.T) {
	p := locus.From([]float32{0.1, 0.2, 0.7})
	const n = 20000
	drawn := draw(p.Log().Expand(n, 3), locus.NewKey(0))
	part := drawn.OneHot(3).Mean(0)
	if d := part.Sub(p).Abs().Max().Item(); d > 0.02 {
		t.Errorf("drew %v, want %v", part, p)
	}
}
