package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// kernel runs one op on operands of one element type.
type kernel = func(*backend.Call) error

const numDTypes = dtype.Float64 + 1

// table has the kernels by op and by the element type that selects them: KernelType
// of op.Def. The files named for the families fill it in.
var table [op.NumOps][numDTypes]kernel

// Kernel returns the op's kernel for the element type d: see KernelType of op.Def.
// It runs on the calling goroutine and those of the thread pool, and
// needs only that the call's memory is the host's. The error it returns is a
// failure that depends on the data.
func Kernel(id op.ID, d dtype.DType) (func(*backend.Call) error, bool) {
	if id >= op.NumOps || d >= numDTypes {
		return nil, false
	}
	k := table[id][d]
	return k, k != nil
}

func register(id op.ID, d dtype.DType, k kernel) {
	if table[id][d] != nil {
		panic("cpu: two kernels for " + id.String() + " of " + d.String())
	}
	if op.Get(id).Images() {
		k = inEitherLayout(k)
	}
	if id == op.Attend || id == op.AttendGrad {
		k = byRows(k)
	}
	table[id][d] = k
}

// registerEachFloat registers the kernels of all floating-point types.
func registerEachFloat(id op.ID, f32, f64 kernel, half func(h halfType) kernel) {
	register(id, dtype.Float32, f32)
	register(id, dtype.Float64, f64)
	for _, h := range halfTypes {
		register(id, h.dtype, half(h))
	}
}

// registerWidths registers kernels that only move elements, by their size.
func registerWidths(id op.ID, k1, k2, k4, k8 kernel) {
	for _, d := range dtype.All {
		register(id, d, map[int]kernel{1: k1, 2: k2, 4: k4, 8: k8}[d.Size()])
	}
}

// The constraints of kernels. Bools are handled as the bytes 0 and 1.
type (
	integer interface{ uint8 | int32 | int64 }
	float   interface{ float32 | float64 }
	number  interface{ integer | float }
	half    interface {
		dtype.F16 | dtype.BF16
		Float32() float32
	}
	// word is an element as something to move.
	word interface {
		uint8 | uint16 | uint32 | uint64
	}
)
