package locus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// Errors name what the program called, not what that is made of, and say what a
// person would. The tests of internal/optest and internal/gate check the name for
// everything exported.
func TestErrorsNameWhatWasCalled(t *testing.T) {
	x := locus.Ones(2, 3)
	whole := x.Cast(locus.Int64)
	classes := locus.From([]int64{1, -100})
	for _, c := range []struct {
		op, says string
		f        func()
	}{
		{"Zeros", "negative size -1", func() { locus.Zeros(-1) }},
		{"Ones", "gpu:7777 does not exist", func() { locus.GPU(7777).Ones(2) }},
		{"Sort", "axis 5", func() { x.Sort(5, false) }},
		{"TopK", "k is 9", func() { x.TopK(9, 0) }},
		{"Std", "axis 4", func() { x.Std(4) }},
		{"Index", "position 9", func() { x.Index(9) }},
		{"CrossEntropy", "IgnoreIndex: new(-100)", func() { locus.CrossEntropy(x, classes, locus.CrossEntropyOptions{}) }},
		{"NLLLoss", "IgnoreIndex", func() { locus.NLLLoss(x, classes, locus.NLLOptions{}) }},
		{"LogSigmoid", "Softplus: operand 0 is int64", func() { whole.Neg().LogSigmoid() }},
		{"MatMul", "transpose operand 1", func() { x.MatMul(x) }},
		{"Where", "compare first", func() { x.Where(1, 0) }},
		{"Item", "ToSlice", func() { x.Item() }},
		{"Sum", "axis 9", func() { locus.Scoped(func(*locus.Scope) { x.Sum(9) }) }},
		{"Sum", "axis 9", func() {
			locus.ValueAndGrad(func(args ...*locus.Tensor) *locus.Tensor { return args[0].Sum(9) })(x)
		}},
		{"ValueAndGrad", "want one", func() {
			locus.ValueAndGrad(func(args ...*locus.Tensor) *locus.Tensor { return args[0].Mul(2) })(x)
		}},
		{"Key.Split", "number of keys", func() { locus.NewKey(1).Split(-1) }},
		{"Linear", "operand 0 with .Cast(locus.Float32)", func() { locus.Linear(whole, locus.Ones(4, 3), nil) }},
		{"Add", "operand 1 with .Cast(locus.Float32)", func() { x.Add(whole) }},
		{"Narrow", "for a length of 1 Narrow(1, 2, 3)", func() { x.Narrow(1, 2, 1) }},
		{"Conv2D", "in one group needs 2", func() { locus.Conv2D(locus.Ones(1, 3, 4, 4), locus.Ones(5, 2, 1, 1), nil, locus.ConvOptions{}) }},
		{"LSTMSequence", "has 3 features; the weights of the input (8, 5) are for 5", func() {
			h := locus.Zeros(1, 2)
			locus.LSTMSequence(locus.Ones(4, 1, 3), h, h, locus.CellWeights{Input: locus.Ones(8, 5), Hidden: locus.Ones(8, 2)}, locus.SequenceOptions{})
		}},
		{"mine", "is nil", func() { locus.Custom("mine", nil, nil) }},
	} {
		err := locus.Try(c.f)
		var e *locus.Error
		if !errors.As(err, &e) || e.Op != c.op || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %q: %v", c.op, c.says, err)
		}
	}
}

// A method value is the method.
func TestErrorsOfMethodValues(t *testing.T) {
	f := locus.Ones(2).Sum
	var e *locus.Error
	if err := locus.Try(func() { f(3) }); !errors.As(err, &e) || e.Op != "Sum" {
		t.Error(err)
	}
}
