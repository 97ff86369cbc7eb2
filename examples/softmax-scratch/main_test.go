package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestRun(t *testing.T) {
	for _, d := range append(locus.AddVirtualGPUs(1, 64<<20), locus.CPU()) {
		var b strings.Builder
		if err := run(&b, d); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		var epoch int
		var accuracy float64
		if _, err := fmt.Sscanf(lines[len(lines)-1], "epoch %d  accuracy %f", &epoch, &accuracy); err != nil || epoch != 10 || accuracy < 0.9 {
			t.Errorf("on %s, want an accuracy of at least 0.9 in epoch 10 (%v):\n%s", d, err, b.String())
		}
	}
}

// What is made by hand is what the library has.
func TestLoss(t *testing.T) {
	scores, labels := locus.Randn(5, 10).Mul(50), locus.Randint(0, 10, 5)
	if d := softmax(scores).Sub(scores.Softmax(1)).Abs().Max().Item(); d > 1e-6 {
		t.Errorf("softmax differs by %g", d)
	}
	scores = scores.Div(50)
	got, want := crossEntropy(softmax(scores), labels).Item(), locus.CrossEntropy(scores, labels, locus.CrossEntropyOptions{}).Item()
	if math.Abs(got-want) > 1e-5 {
		t.Errorf("cross-entropy is %g, want %g", got, want)
	}
}
