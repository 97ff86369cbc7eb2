//go:build linux && arm64 && !nocuda

package cuda

import "github.com/ebitengine/purego"

// call is one call of a C function with integer and pointer arguments; see
// call_amd64.go.
type call struct {
	fn       uintptr
	a        [maxArgs]uintptr
	r        uintptr
	first    uintptr
	firstArg uintptr
}

const maxArgs = 24

// do calls fn with the first 12 arguments.
func (c *call) do() uintptr { return c.with(12) }

// doWide calls fn with all 24 arguments.
func (c *call) doWide() uintptr { return c.with(maxArgs) }

func (c *call) with(n int) uintptr {
	if c.first != 0 {
		c.r, _, _ = purego.SyscallN(c.first, c.firstArg)
		c.first = 0
		if int32(c.r) != 0 {
			return c.r
		}
	}
	c.r, _, _ = purego.SyscallN(c.fn, c.a[:n]...)
	return c.r
}
