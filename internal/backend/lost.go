package backend

import (
	"fmt"

	"github.com/locusml/locus/internal/op"
)

// LostError is what every call on a device returns after a fault from which it does not
// recover. The first call that sees the fault returns it inside an [AsyncError], which
// names the op.
type LostError struct {
	On     Device // which one; nil where that is not known
	Device string // its name
	Cause  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s is lost: %v; what was on it is gone and the process must be restarted to use it again (the CPU and other GPUs keep working)", e.Device, e.Cause)
}

// Unwrap makes errors.Is(err, op.ErrDeviceLost) and errors.As for the cause work.
func (e *LostError) Unwrap() []error { return []error{op.ErrDeviceLost, e.Cause} }
