package op

import (
	"errors"
	"fmt"
)

// The kinds of misuse. Package locus exports them under the same names.
var (
	ErrShape       = errors.New("shape mismatch")
	ErrDType       = errors.New("dtype mismatch")
	ErrDevice      = errors.New("device mismatch")
	ErrIndex       = errors.New("index out of range")
	ErrAxis        = errors.New("axis out of range")
	ErrArgument    = errors.New("invalid argument")
	ErrFreed       = errors.New("tensor already freed")
	ErrOutOfMemory = errors.New("out of memory")
	ErrUnsupported = errors.New("not supported by this device")
	ErrTransfer    = errors.New("transfer disallowed by the guard")
	ErrDeviceLost  = errors.New("device failed")
	ErrMatrix      = errors.New("unsuitable matrix")
)

// Problem is what a rule reports: which kind of misuse, what was wrong, and if
// there is one, the call that would fix it. Package locus adds the op's name
// and its operands.
type Problem struct {
	Kind error
	Msg  string
	Fix  string
}

func (p *Problem) Error() string { return p.Msg }

// Unwrap makes errors.Is(err, ErrShape) and the like work.
func (p *Problem) Unwrap() error { return p.Kind }

// Problemf makes a Problem with a formatted message.
func Problemf(kind error, format string, args ...any) *Problem {
	return &Problem{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}
