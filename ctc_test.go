package locus_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// What lies behind a target's length, and behind a sequence's, does not count: also if it
// is no class, or no number.
func TestCTCLossIgnoresPadding(t *testing.T) {
	for _, d := range places() {
		x := locus.Randn(6, 2, 4).LogSoftmax(-1).To(d)
		nan := x.Slice(locus.R(0, 4)).Pad(math.NaN(), 0, 2)
		lengths, labels := d.From([]int{4, 3}), d.From([]int32{2, 1})
		o := locus.CTCOptions{Reduction: locus.ReduceNone}
		want := locus.ToSlice[float32](locus.CTCLoss(x, d.From([]int{1, 2, 3, 3, 0, 0}, 2, 3), lengths, labels, o))
		leaf := nan.RequireGrad()
		loss := locus.CTCLoss(leaf, d.From([]int{1, 2, -100, 3, 77, -1}, 2, 3), lengths, labels, o)
		if got := locus.ToSlice[float32](loss); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
		g := locus.GradOf(loss.Sum(), leaf)[0]
		if g.IsNaN().Any().Item() != 0 || g.Narrow(0, 4, 6).Ne(0).Any().Item() != 0 {
			t.Errorf("%v: the gradient is %v", d, g)
		}
	}
}

// A target that does not fit has an infinite loss and no gradient; the rest of the batch
// has its own.
func TestCTCLossOfWhatDoesNotFit(t *testing.T) {
	for _, d := range places() {
		x := locus.Randn(3, 2, 4).LogSoftmax(-1).To(d).RequireGrad()
		targets := d.From([]int{1, 1, 2, 3}, 2, 2)
		lengths := d.From([]int{2, 3}) // 1, 1 needs a blank between, so three steps
		losses := locus.ToSlice[float32](locus.CTCLoss(x, targets, lengths, nil, locus.CTCOptions{Reduction: locus.ReduceNone}))
		if !math.IsInf(float64(losses[0]), 1) || math.IsInf(float64(losses[1]), 0) {
			t.Errorf("%v: losses %v", d, losses)
		}
		for _, zero := range []bool{false, true} {
			loss := locus.CTCLoss(x, targets, lengths, nil, locus.CTCOptions{ZeroInfinity: zero, Reduction: locus.ReduceSum})
			if math.IsInf(loss.Item(), 1) == zero {
				t.Errorf("%v: loss %v, zero %v", d, loss.Item(), zero)
			}
			g := locus.GradOf(loss, x)[0]
			if g.IsFinite().All().Item() != 1 || g.Narrow(1, 0, 1).Ne(0).Any().Item() != 0 || g.Narrow(1, 1, 2).Ne(0).Any().Item() == 0 {
				t.Errorf("%v, zero %v: gradient %v", d, zero, g)
			}
		}
	}
}

// An error says which labels and lengths there can be.
func TestCTCLossSaysWhatIsWrong(t *testing.T) {
	err := locus.Try(func() {
		locus.CTCLoss(locus.Zeros(4, 1, 3), locus.From([]int{1, 3}, 1, 2), nil, nil, locus.CTCOptions{})
	})
	var e *locus.Error
	if !errors.As(err, &e) || e.Op != "CTCLoss" || !strings.Contains(e.Fix, "labels are 0 to 2") {
		t.Error(err)
	}
}

// A reader that sees one of three signs at a time, for a while, learns to name them from
// their order alone: nobody says where a sign begins.
func ExampleCTCLoss() {
	// Signs 0, 1 and 2 last for two steps each, in the order of the label; class 0 of the
	// result is the blank, class k+1 sign k.
	seen := locus.From([]int{0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0}, 2, 6).OneHot(3).Transpose(0, 1) // (T, N, 3)
	labels := locus.From([]int{1, 2, 3, 3, 2, 1}, 2, 3)
	w := locus.Zeros(4, 3)
	for range 100 {
		leaf := w.RequireGrad()
		logp := locus.Linear(seen, leaf, nil).LogSoftmax(-1)
		w = w.Sub(locus.GradOf(locus.CTCLoss(logp, labels, nil, nil, locus.CTCOptions{}), leaf)[0])
	}
	best := locus.Linear(seen, w, nil).ArgMax(-1).Transpose(0, 1)
	fmt.Println(locus.ToSlice[int64](best.Index(0)))
	// Output: [1 1 2 2 3 3]
}
