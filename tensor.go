package locus

import (
	"slices"
	"sync/atomic"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// DType is the type of a tensor's elements.
type DType = dtype.DType

// The element types.
const (
	Bool     = dtype.Bool
	Uint8    = dtype.Uint8
	Int32    = dtype.Int32
	Int64    = dtype.Int64
	Float16  = dtype.Float16
	BFloat16 = dtype.BFloat16
	Float32  = dtype.Float32
	Float64  = dtype.Float64
)

// MaxRank is the largest number of dimensions of a tensor.
const MaxRank = op.MaxRank

// Tensor is an array of numbers of one type on one device. It never changes;
// ops make new tensors. Views (reshape, transpose, slice, expand) share the
// memory of what they were made from and cost nothing.
type Tensor struct {
	shape, strides []int // never written to: tensors share them
	offset         int   // elements
	dtype          DType
	constant       bool // a scalar operand without memory; never seen by users
	owner          bool // Free on it frees the block: see docs/memory.md
	place          *place
	block          *memory.Block
	bits           uint64                // the constant's value
	scope          atomic.Pointer[Scope] // where results computed from it belong
	node           *node                 // how it was computed, if a gradient may be asked for
	lane           *lane                 // axes that Vmaps hide; nil outside of them
}

// Shape returns the sizes of the axes; the caller may keep and change it.
func (t *Tensor) Shape() []int {
	t.made("Shape")
	return slices.Clone(t.shape)
}

// Dim is the size of one axis; negative axes count from the end.
func (t *Tensor) Dim(axis int) int {
	t.made("Dim")
	return t.shape[t.axis("Dim", axis)]
}

// Rank is the number of axes.
func (t *Tensor) Rank() int {
	t.made("Rank")
	return len(t.shape)
}

// Len is the number of elements.
func (t *Tensor) Len() int {
	t.made("Len")
	return op.Elements(t.shape)
}

// DType is the type of the elements.
func (t *Tensor) DType() DType {
	t.made("DType")
	return t.dtype
}

// Device is where the tensor lives.
func (t *Tensor) Device() Device {
	t.made("Device")
	return t.place.device
}

// Bytes is the size of the elements in memory, if they lay without holes.
func (t *Tensor) Bytes() int { return t.Len() * t.dtype.Size() }

// IsContiguous reports whether the elements lie in memory in order without holes. Views
// need not, and neither need images that ops on a GPU return: they may lie channels last.
func (t *Tensor) IsContiguous() bool {
	t.made("IsContiguous")
	return op.IsContiguous(t.shape, t.strides)
}

// Freed reports whether the tensor's memory was freed, by [Tensor.Free] or
// by its scope's end.
func (t *Tensor) Freed() bool {
	t.made("Freed")
	return t.freed()
}

func (t *Tensor) freed() bool { return t.block != nil && t.block.Freed() }

// Free frees the tensor's memory at once instead of when its scope closes or
// the collector finds it. Using the tensor or a view of it afterwards is an
// [ErrFreed]; queued work, and ops that run at this moment in other goroutines,
// are not disturbed.
//
// Memory belongs to the tensor that an op, a copy or a function like Zeros
// returned. A view (Reshape, Slice, Detach, RequireGrad, Scope.Use, …) borrows it:
// Free on a view does nothing. Functions that return their operand where there is
// nothing to do, such as To and Cast, return the owner itself.
func (t *Tensor) Free() {
	t.made("Free")
	if t.owner {
		t.block.Free()
	}
}

// IsView reports whether t is a view, whose memory belongs to another tensor: see
// [Tensor.Free].
func (t *Tensor) IsView() bool {
	t.made("IsView")
	return !t.owner
}

// owned makes t, a view of memory that nothing else has a handle of, its owner.
func (t *Tensor) owned() *Tensor {
	t.owner = t.block != nil
	return t
}

// fresh is owned for the result of an op that lays out again what it has computed,
// unless it turned out to be a view of one of the operands after all.
func (t *Tensor) fresh(operands ...*Tensor) *Tensor {
	for _, x := range operands {
		if x != nil && x.block == t.block {
			return t
		}
	}
	return t.owned()
}

// freeMemory frees t's memory although t may be a view, for code that knows that
// nothing else uses it.
func (t *Tensor) freeMemory() { t.block.Free() }

// SharesMemory reports whether t and u live in the same block of memory.
func (t *Tensor) SharesMemory(u *Tensor) bool {
	t.made("SharesMemory")
	u.made("SharesMemory")
	return t.block != nil && t.block == u.block
}

func (t *Tensor) operand() Operand {
	if t.constant {
		return Operand{DType: t.dtype, Scalar: true}
	}
	return Operand{Shape: t.Shape(), DType: t.dtype, Device: t.place.device}
}

func (t *Tensor) spec() op.Spec { return op.Spec{DType: t.dtype, Shape: t.shape} }

func (t *Tensor) view() (v backend.View) {
	t.viewAs(&v)
	return v
}

// viewAs writes t's view where it is needed, field by field: a copy of the whole
// would take several times as long while the collector runs.
func (t *Tensor) viewAs(v *backend.View) {
	v.Block, v.Bits, v.Offset, v.Shape, v.Strides, v.DType = t.block, t.bits, t.offset, t.shape, t.strides, t.dtype
}

// axis resolves an axis of t, which may count from the end.
func (t *Tensor) axis(name string, axis int) int {
	a, err := op.ResolveAxis(axis, len(t.shape))
	if err != nil {
		fail(name, err, t)
	}
	return a
}

// check panics unless t can be used by the op called name.
func (t *Tensor) check(name string) {
	t.made(name)
	if t.freed() {
		t.failFreed(name)
	}
}

func (t *Tensor) failFreed(name string) {
	fail(name, &op.Problem{Kind: ErrFreed, Msg: "an operand's memory was freed: by Free, when its scope closed, or by an optimizer's step",
		Fix: "keep it with scope.Keep before the scope closes, or copy a parameter's value before the step"}, t)
}

// hold keeps t's memory from being reused until letGo: for whoever reads it.
func (t *Tensor) hold(name string) {
	if t.block != nil && !t.block.TryHold() {
		t.failFreed(name)
	}
}

func (t *Tensor) letGo() {
	if t.block != nil {
		t.block.LetGo()
	}
}
