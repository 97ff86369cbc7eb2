//go:build linux && arm64 && !nocuda

package cuda

import "github.com/ebitengine/purego"

// call is one call of a C function with integer and pointer arguments; see
// call_amd64.go.
type call struct {
	fn uintptr
	a  [maxArgs]uintptr
	r  uintptr
}

const maxArgs = 24

// do calls fn with the first 12 arguments.
func (c *call) do() uintptr {
	c.r, _, _ = purego.SyscallN(c.fn, c.a[:12]...)
	return c.r
}

// doWide calls fn with all 24 arguments.
func (c *call) doWide() uintptr {
	c.r, _, _ = purego.SyscallN(c.fn, c.a[:]...)
	return c.r
}
