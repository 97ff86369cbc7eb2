package main

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/train"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	report, err := run(&b, &train.Flags{Data: "digits", Epochs: 2}, 8)
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Last().Train["loss"]; got > 2 {
		t.Errorf("the loss is %.3f, want less than 2\n%s", got, b.String())
	}
}

// The image's size does not matter.
func TestShapes(t *testing.T) {
	for _, size := range []int{8, 28} {
		y := resnet(4, 7).Forward(locus.Zeros(2, 1, size, size))
		if s := y.Shape(); s[0] != 2 || s[1] != 7 {
			t.Errorf("2 images of %d×%d pixels gave scores of shape %v, want (2, 7)", size, size, s)
		}
	}
}
