//go:build linux && amd64 && !nocuda

package cuda

import (
	"unsafe"

	_ "github.com/ebitengine/purego" // sets up threads and TLS for C code when there is no cgo
)

// call is one call of a C function with integer and pointer arguments. It
// stands for the hot calls: it costs a third of purego.SyscallN and allocates
// nothing. Pointers in a must be to memory that does not move, which a
// goroutine's stack may do: keep them in heap objects.
//
// If first is set, it is called before fn with the argument firstArg, in the same
// crossing to C; if it does not return 0, its result is the call's and fn is left out.
type call struct {
	fn       uintptr
	a        [maxArgs]uintptr
	r        uintptr
	first    uintptr
	firstArg uintptr
}

const maxArgs = 24

//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(fn uintptr, arg unsafe.Pointer) int32

var trampoline12, trampoline24 uintptr // defined in call_amd64.s

// do calls fn with the first 12 arguments.
func (c *call) do() uintptr {
	cgocall(trampoline12, unsafe.Pointer(c))
	c.first = 0
	return c.r
}

// doWide calls fn with all 24 arguments.
func (c *call) doWide() uintptr {
	cgocall(trampoline24, unsafe.Pointer(c))
	c.first = 0
	return c.r
}
