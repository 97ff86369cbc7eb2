// Package gate refuses garbage where a program's call enters: sizes that no
// machine can loop over, nil functions and modules, values that no constructor
// has made. A check comes before anything is allocated or looped over.
//
// The rule is here once. A boundary returns a check's error; an expression panics
// with it, by way of [Check]. Tensors have a check of their own in package locus,
// where it costs ops nothing.
package gate

import (
	"reflect"

	"github.com/locusml/locus/internal/op"
)

// The most that a program may ask for. Each is far above what is useful and far
// below what would hang or kill the process.
const (
	MaxLayers  = 1 << 14 // layers that one call makes
	MaxKeys    = 1 << 27 // keys that one call makes: 1 GiB
	MaxParts   = 1 << 20 // tensors that one call makes beyond what its operands have elements for
	MaxWorkers = 1 << 14 // goroutines, devices, batches ahead
)

// Raise panics with a *locus.Error. Package locus, which cannot be imported from
// here, puts it in place.
var Raise = func(name string, err error) { panic(err) }

// Check panics with the first of errs that is not nil, as the error of the
// function called name.
func Check(name string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			Raise(name, err)
		}
	}
}

// Count checks a number of things, or a size.
func Count(what string, n, low, high int) error {
	if n >= low && n <= high {
		return nil
	}
	if n < low {
		return op.Problemf(op.ErrArgument, "%s is %d; want at least %d", what, n, low)
	}
	return op.Problemf(op.ErrArgument, "%s is %d; the most is %d", what, n, high)
}

// Shape checks the sizes of a tensor that is made later.
func Shape(shape ...int) error { return op.CheckShape(shape) }

// Given checks that v, a function, a module, a reader or the like, is not nil; a
// nil pointer in an interface is nil too.
func Given(what string, v any) error {
	if !IsNil(v) {
		return nil
	}
	return op.Problemf(op.ErrArgument, "%s is nil", what)
}

// IsNil reports whether v is nil or holds a nil pointer, function, map or the like.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan, reflect.Interface:
		return r.IsNil()
	}
	return false
}

// Made checks that a method's receiver came from its constructor, or was filled
// in where there is none: whether it did is for the caller to say.
func Made(ok bool, fix string) error {
	if ok {
		return nil
	}
	return &op.Problem{Kind: op.ErrArgument, Msg: "the receiver is nil, or a zero value that nothing has filled in", Fix: fix}
}

// Receiver panics unless a method's receiver was made: see [Made].
func Receiver(name string, ok bool, fix string) {
	if !ok {
		Check(name, Made(false, fix))
	}
}

// SameShape compares the shapes of two tensors without making slices of them.
func SameShape[T interface {
	Rank() int
	Dim(axis int) int
}](a, b T) bool {
	if a.Rank() != b.Rank() {
		return false
	}
	for i := range a.Rank() {
		if a.Dim(i) != b.Dim(i) {
			return false
		}
	}
	return true
}
