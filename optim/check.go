package optim

import (
	"fmt"
	"math"

	"github.com/locusml/locus"
)

// fail panics with a misuse of an optimizer.
func fail(kind error, op, msg, fix string) {
	panic(&locus.Error{Kind: kind, Op: op, Msg: msg, Fix: fix})
}

// check panics with the first error there is.
func check(name string, errs ...error) {
	if err := first(errs...); err != nil {
		fail(locus.ErrArgument, "optim."+name, err.Error(), "")
	}
}

func checkTensor(op, what, name string, t *locus.Tensor) {
	switch {
	case t == nil || !t.DType().Valid():
		fail(locus.ErrArgument, op, what+name+" is nil or a zero value", "")
	case t.Freed():
		fail(locus.ErrFreed, op, "the memory of "+what+name+" was freed", "keep it with scope.Keep before its scope closes")
	}
}

func checkLR(lr float64) error {
	return atLeastZero("the learning rate", lr)
}

// first returns the first error there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func atLeastZero(name string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v; want a finite number, at least 0", name, v)
	}
	return nil
}

// belowOne is for what weighs the past in an average.
func belowOne(name string, v float64) error {
	if !(v >= 0 && v < 1) {
		return fmt.Errorf("%s is %v; want at least 0 and less than 1", name, v)
	}
	return nil
}

func finite(name string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v; want a finite number", name, v)
	}
	return nil
}
