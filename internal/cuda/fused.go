//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.Softmax, op.SoftmaxGrad, op.LogSoftmax, op.LogSoftmaxGrad} {
		runners[id] = (*Device).runSoftmax
	}
}

// linesParams is the parameters of kernels/softmax.cu.
type linesParams struct {
	out, a, b             uintptr
	lines, length         uint64
	stepA, stepB, stepOut int64
	line                  idx
}

// held is the number of vectors a thread keeps in registers: HELD of the kernels.
const held = 8

func (d *Device) runSoftmax(c *backend.Call) error {
	axis, t := c.Attrs.(op.Axis).Axis, c.Out.DType
	a, b := &c.In[0], &c.In[len(c.In)-1]
	p := linesParams{out: c.Out.Block.Addr, a: addr(a), b: addr(b), length: uint64(a.Shape[axis]),
		stepA: int64(a.Strides[axis]), stepB: int64(b.Strides[axis]), stepOut: int64(c.Out.Strides[axis])}
	lines := p.line.beside(axis, a, b, &c.Out)
	p.lines = uint64(lines)
	n, v := a.Shape[axis], lanes(t)
	keep := held
	if len(c.In) == 2 {
		keep /= 2
	}
	wide := n%v == 0 && p.line.together(v) && p.stepA == 1 && p.stepB == 1 && p.stepOut == 1 && (p.a|p.b|p.out)%16 == 0
	stem, suffix := c.Op.String(), "_"+typeName(t)
	switch {
	case wide && n <= 32*v*keep:
		return runKernel(d, "softmax", stem+"_held_warp"+suffix, &p, grid{x: ceil(lines, 4), threads: 128})
	case wide && n <= 1024*v*keep:
		return runKernel(d, "softmax", stem+"_held_block"+suffix, &p, grid{x: lines, threads: threadsFor(n, v*keep)})
	case p.stepOut != 1 && lines >= 32:
		return runKernel(d, "softmax", stem+"_thread"+suffix, &p, grid{x: ceil(lines, 128), threads: 128})
	case n <= 1024:
		return runKernel(d, "softmax", stem+"_warp"+suffix, &p, grid{x: ceil(lines, 4), threads: 128})
	}
	return runKernel(d, "softmax", stem+"_block"+suffix, &p, grid{x: lines, threads: 512})
}

// together reports whether lines of contiguous vectors of v elements start
// aligned for every operand.
func (x *idx) together(v int) bool {
	for k := range x.stride {
		for i := range x.nd {
			if x.stride[k][i]%int64(v) != 0 {
				return false
			}
		}
	}
	return true
}

// threadsFor returns a number of threads of which each takes about per elements of n.
func threadsFor(n, per int) int {
	t := 64
	for t < 1024 && t*per < n {
		t *= 2
	}
	return t
}
