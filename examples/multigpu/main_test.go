package main

import (
	"math"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b, 2); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "times as fast") {
		t.Error(b.String())
	}
	one, err := fit(2, locus.GPU(0))
	if err != nil {
		t.Fatal(err)
	}
	two, err := fit(2, locus.GPU(0), locus.GPU(1))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := one.Last().Train["loss"], two.Last().Train["loss"]; math.Abs(a-b) > 1e-4 {
		t.Errorf("the loss on one GPU is %g, on two %g", a, b)
	}
}

func TestCheckReplicasSeesDifferences(t *testing.T) {
	a := nn.Linear(2, 2)
	b := nn.CopyTo(a, locus.CPU())
	if err := checkReplicas([]train.Model{train.Classifier(a), train.Classifier(b)}); err != nil {
		t.Error(err)
	}
	b.Bias.Set(b.Bias.Value().Add(1))
	if err := checkReplicas([]train.Model{train.Classifier(a), train.Classifier(b)}); err == nil {
		t.Error("a changed bias was not seen")
	}
}
