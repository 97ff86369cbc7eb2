// Package lend lends the memory of tensors to the module's own packages, which programs do
// not see: the engines of package collective read and write it. Package locus, which cannot
// be imported from here, puts the functions in place; they take and return its types.
package lend

import (
	"time"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/program"
)

// Loan is a tensor's memory, which stays until Release.
type Loan struct {
	Backend backend.Device
	Block   *memory.Block
	Offset  int // bytes
	Size    int // bytes
	Host    bool
}

// Bytes returns memory that the host can reach.
func (l *Loan) Bytes() []byte {
	if l.Size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(l.Block.Ptr, l.Offset)), l.Size)
}

// Release lets go of the memory.
func (l *Loan) Release() {
	if l.Block != nil {
		l.Block.LetGo()
	}
}

var (
	// Memory lends the memory of a contiguous *locus.Tensor to the function called name. It
	// panics with a *locus.Error where that cannot be.
	Memory func(name string, tensor any) Loan

	// Backend returns the device that a *locus.Tensor lives on.
	Backend func(tensor any) backend.Device

	// Make returns a new *locus.Tensor on a locus.Device, with unset elements, that belongs
	// to no scope. pinned asks for page-locked main memory where there is some; the device is
	// the CPU then.
	Make func(name string, device any, pinned bool, d dtype.DType, shape []int) any

	// Profiling reports whether a timeline is being taken, for which Span notes what the host
	// or a library did for a locus.Device from start on.
	Profiling func() bool
	Span      func(device any, name, detail string, bytes int, start time.Time)

	// Beside calls run, which queues something on a device beside its ops, and puts it on the
	// timeline that is being taken, by the device's clock, if there is one and the device
	// can tell.
	Beside func(on backend.Device, name, detail string, bytes int, run func() error) (seen bool, err error)

	// Error returns what a device reported to the function called name as a *locus.Error.
	Error func(name string, err error) error

	// Single panics with a *locus.Error if a *locus.Tensor stands for the slices of a Vmap:
	// the function called name would keep it beyond that.
	Single func(name string, tensor any)

	// Own makes a *locus.Tensor, a view of memory that nobody else has a handle of, its
	// owner, and returns it.
	Own func(tensor any) any

	// Spend and Lose let go of x, a *locus.Tensor of which the caller has the only handle,
	// after another tensor, by, was computed from it: it is freed as soon as no gradient
	// will read it. With Spend only the op that made by has read x.
	Spend, Lose func(x, by any)

	// AddNorm returns x + d and its locus.LayerNorm over the last axes, all *locus.Tensor: in
	// one launch where the device has that.
	AddNorm func(x, d any, shape []int, weight, bias any, eps float64) (sum, y any)

	// BatchNorm is locus.BatchNormRunning, of *locus.Tensor, with what follows it: in one
	// launch where the device has that.
	BatchNorm func(x, mean, variance, weight, bias any, momentum, eps float64, end NormEnd) (y, newMean, newVariance any)

	// EndNorm returns what follows y, the result of a normalization, a *locus.Tensor of which
	// the caller has the only handle.
	EndNorm func(y any, end NormEnd) any

	// Drop says that the caller does not need some *locus.Tensor any more, though the
	// program may: their memory is looked at early.
	Drop func(tensors []any)

	// Readable panics with a *locus.Error if the calling goroutine traces a function, while
	// which there is nothing to read.
	Readable func(name string)

	// Export returns what a *locus.Compiled computes from args, of type *locus.Tensor,
	// as a portable program, and the weights in the program's order. It panics with a
	// *locus.Error where that cannot be.
	Export func(compiled any, args []any) (*program.Portable, []ExportedWeight)

	// Import returns a function, of type func(args ...*locus.Tensor) []*locus.Tensor, that
	// computes a portable program, which was checked, with weights that are *locus.Tensor,
	// contiguous, and on a locus.Device. Its arguments must be contiguous too.
	Import func(p *program.Portable, weights []any, device any) any
)

// NormEnd is what follows a normalization.
type NormEnd struct {
	Add any  // a *locus.Tensor that is added to the result; nil is none
	Own bool // nothing else has a handle of Add
	Act any  // a locus.Activation; nil is none
}

// ExportedWeight is a tensor of a portable program.
type ExportedWeight struct {
	Tensor   any // a *locus.Tensor with the weight's elements in order
	Variable any // the *locus.Tensor that a variable holds, or nil if the tensor is not held by one
	Const    bool
}
