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

// ExportedWeight is a tensor of a portable program.
type ExportedWeight struct {
	Tensor   any // a *locus.Tensor with the weight's elements in order
	Variable any // the *locus.Tensor that a variable holds, or nil if the tensor is not held by one
	Const    bool
}
