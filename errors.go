package locus

import (
	"errors"
	"fmt"
	"strings"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/units"
)

// The kinds of error, for errors.Is.
var (
	ErrShape       = op.ErrShape               // shapes do not fit together, or a size is impossible
	ErrDType       = op.ErrDType               // element types do not fit the op or each other
	ErrDevice      = op.ErrDevice              // operands on two devices, or a device that does not exist
	ErrIndex       = op.ErrIndex               // an index outside its axis
	ErrAxis        = op.ErrAxis                // an axis the tensor does not have
	ErrArgument    = op.ErrArgument            // any other invalid argument
	ErrFreed       = op.ErrFreed               // the tensor's memory was freed
	ErrOutOfMemory = op.ErrOutOfMemory         // the device has no room
	ErrUnsupported = op.ErrUnsupported         // the device has no kernel for the op
	ErrTransfer    = op.ErrTransfer            // a copy or wait that the guard disallows
	ErrDeviceLost  = op.ErrDeviceLost          // the device failed and cannot go on
	ErrMatrix      = op.ErrMatrix              // a matrix that is singular, not positive definite or not finite
	ErrGrad        = errors.New("no gradient") // a gradient that does not exist, or that would be lost
)

// Error is a misuse or a failure in a tensor expression. It says which op
// failed, on which operands, why, and where there is one, the call that fixes it.
type Error struct {
	Kind     error     // one of the Err… values
	Op       string    // the function or method of package locus that the program called
	Layer    string    // where in a network, such as "Sequential[2] (Linear 256→10)"; "" outside of one
	Operands []Operand // in order; empty where there are none
	Msg      string    // what was wrong
	Fix      string    // what to write instead, or ""
	Memory   *MemoryReport
	Async    bool // the op had been queued earlier and failed since

	inside bool // another op failed, on other operands, inside of Op
}

// Operand describes a tensor in an [Error].
type Operand struct {
	Shape  []int
	DType  DType
	Device Device
	Scalar bool // a Go number, which has no device
}

// String returns "float32 (2, 3) on gpu:0".
func (o Operand) String() string {
	if o.Scalar {
		return "a Go number, as " + o.DType.String()
	}
	return fmt.Sprintf("%s %s on %s", o.DType, op.ShapeString(o.Shape), o.Device)
}

// Error describes all of that on a few lines.
func (e *Error) Error() string {
	if e == nil {
		return "<nil error>"
	}
	var b strings.Builder
	b.WriteString("locus: ")
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	if e.Async {
		b.WriteString(" (the op was queued earlier; this wait is the first to see it)")
	}
	if e.Layer != "" {
		b.WriteString("\n  layer: ")
		b.WriteString(e.Layer)
	}
	for i, o := range e.Operands {
		fmt.Fprintf(&b, "\n  operand %d: %s", i, o)
	}
	if e.Memory != nil {
		b.WriteString("\n")
		b.WriteString(e.Memory.String())
	}
	if e.Fix != "" {
		b.WriteString("\n  fix: ")
		b.WriteString(e.Fix)
	}
	return b.String()
}

// Unwrap returns the kind, so that errors.Is(err, locus.ErrShape) works.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Kind
}

// Try runs f and returns the *[Error] that it panics with, or nil. Other panics
// go on.
func Try(f func()) (err error) {
	if f == nil {
		return newError("Try", gate.Given("the function", f), nil)
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			err = r
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// fail panics with an Error about a function and its operands.
func fail(name string, err error, operands ...*Tensor) {
	panic(newError(name, err, operands))
}

// failf panics with an Error of the given kind.
func failf(name string, kind error, operands []*Tensor, format string, args ...any) {
	fail(name, op.Problemf(kind, format, args...), operands...)
}

// failOn panics with what a device reported, or its allocator.
func failOn(p *place, name string, err error, operands []*Tensor) {
	e := newError(name, err, operands)
	if e.Memory != nil {
		e.Memory.Device = p.device
	}
	panic(e)
}

// newError turns what a rule, a device or the allocator reported into an Error.
func newError(name string, err error, operands []*Tensor) *Error {
	e := &Error{Op: name, Kind: ErrArgument, Msg: err.Error(), Operands: describe(operands)}
	var own *Error
	var problem *op.Problem
	var async *backend.AsyncError
	var exhausted *memory.Exhausted
	var lost *backend.LostError
	if errors.As(err, &lost) { // cards of one kind have one name
		if p := placeOf(lost.On); p != nil {
			defer func() { e.Msg = p.device.String() + ": " + e.Msg }()
		}
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &async):
		e.Op, e.Async, e.Operands = op.Public(async.Op.String()), true, nil
		e.Msg = async.Err.Error()
		e.Kind = kindOf(async.Err)
		if errors.As(async.Err, &problem) {
			e.Fix = problem.Fix
		}
		if e.Kind == ErrIndex {
			e.Fix = "look at the indices, or classes, that were used since the last wait; targets of a loss that do not count need IgnoreIndex"
		}
		return e
	case errors.As(err, &exhausted):
		e.Kind, e.Memory = ErrOutOfMemory, reportOf(exhausted)
		e.Msg = fmt.Sprintf("out of memory: %s %s needs %s", exhausted.Label.DType, exhausted.Label.Shape, units.Bytes(exhausted.Asked))
		if exhausted.Cause != nil {
			e.Msg = fmt.Sprintf("out of memory: %v", exhausted.Cause)
		}
		e.Fix = "compute in a scope that is closed every step, or use a smaller batch"
		if len(e.Memory.Largest) > 0 {
			e.Fix = "compute in a scope that is closed every step, use a smaller batch, or free what the list names"
		}
	case errors.As(err, &problem):
		e.Kind, e.Fix = problem.Kind, problem.Fix
	default:
		e.Kind = kindOf(err)
	}
	e.nameCalled()
	return e
}

// nameCalled puts the name of what the program called in place of the function or
// primitive that failed inside of it. Of a primitive of another name the message
// says so: its operands may be others than the program's.
func (e *Error) nameCalled() {
	failed := op.Public(e.Op)
	called := callsite.Called()
	switch called {
	case "", "Compiled.Call", "Custom": // the program called an op when the function was traced; it has named its own
		e.Op = failed
		return
	}
	primitive := failed != e.Op
	e.Op = called
	if !strings.HasPrefix(called, failed) { // SumKeep is Sum
		e.inside = true
		if primitive {
			e.Msg = failed + ": " + e.Msg
		}
	}
}

// hint is deferred by ops that know better than what fails inside how an error of a
// kind is mended.
func hint(kind error, fix string) {
	r := recover()
	if r == nil {
		return
	}
	if e, ok := r.(*Error); ok && e.Kind == kind && !e.Async {
		e.Fix = fix
	}
	panic(r)
}

// naming is deferred by ops that are compositions: what an op inside panics with
// is reported with the operands that the program wrote.
func naming(name string, in []*Tensor) {
	r := recover()
	if r == nil {
		return
	}
	if e, ok := r.(*Error); ok && !e.Async && e.inside && e.Op == name {
		e.Operands, e.inside = describe(in), false
	}
	panic(r)
}

// describe lists operands for an Error, without those that are nil or zero.
func describe(ts []*Tensor) []Operand {
	var l []Operand
	for _, t := range ts {
		if t != nil && (t.place != nil || t.constant) {
			l = append(l, t.operand())
		}
	}
	return l
}

func kindOf(err error) error {
	for _, kind := range []error{ErrShape, ErrDType, ErrDevice, ErrIndex, ErrAxis, ErrFreed, ErrOutOfMemory, ErrUnsupported, ErrTransfer, ErrDeviceLost, ErrMatrix} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return ErrArgument
}
