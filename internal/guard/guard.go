// Package guard runs a program's own functions, such as losses, callbacks and
// datasets, so that what goes wrong in them comes back as an error.
package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/locusml/locus"
)

// Panic is the error of a function that panicked with anything but a
// *locus.Error.
type Panic struct {
	Value any    // what it panicked with
	Stack []byte // where
}

// Error returns the value and the line that panicked. The whole stack is in
// Stack.
func (p *Panic) Error() string {
	return fmt.Sprintf("panic: %v%s", p.Value, origin(p.Stack))
}

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// ErrExit is the error of a function that ended its goroutine.
var ErrExit = errors.New("the function called runtime.Goexit, as (*testing.T).FailNow does")

// Call runs f and returns its error, or what it panicked with: a *locus.Error as it
// is, anything else as a *[Panic]. If f calls runtime.Goexit, the calling goroutine
// ends; use [Go] where it must not.
func Call(f func() error) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *locus.Error:
			err = v
		case *Panic: // from another goroutine, with that one's stack
			err = v
		default:
			err = &Panic{v, debug.Stack()}
		}
	}()
	return f()
}

// Go runs f, which is the last thing that a goroutine does, and tells done how it
// went, whatever f does: with [ErrExit] if it ended the goroutine.
func Go(f func() error, done func(error)) {
	err := ErrExit
	defer func() { done(err) }()
	err = Call(f)
}

// origin returns " at file:line" for the function that panicked, from the stack
// of the goroutine. Functions above it may have caught the panic and passed it on,
// so the panic furthest down is the one.
func origin(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if !strings.HasPrefix(lines[i], "panic(") {
			continue
		}
		for _, l := range lines[min(i+2, len(lines)):] { // below the line of panic itself
			if at, ok := strings.CutPrefix(l, "\t"); ok && !strings.Contains(at, "/runtime/") {
				at, _, _ = strings.Cut(at, " +0x")
				return " at " + at
			}
		}
	}
	return ""
}
