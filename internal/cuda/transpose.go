//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() { runners[op.Copy] = (*Device).runCopy }

// transposeParams is Transpose of kernels/index.cu.
type transposeParams struct {
	out, in           uintptr
	a, b              int64
	outA, inB, tilesB int64
	rest              idx
}

func (d *Device) runCopy(c *backend.Call) error { return d.copyView(&c.In[0], c.Out.Block.Addr) }

// copyView queues a copy of v's elements, in order, to addr.
func (d *Device) copyView(v *backend.View, to uintptr) error {
	n, w := v.Elements(), lanes(v.DType)
	if n == 0 {
		return nil
	}
	k, err := d.kernel("unary", "copy_"+sizeName(v.DType))
	if err != nil {
		return err
	}
	p := paramsOf[elementwise](d, k)
	p.out, p.n = to, uint64(n)
	p.fill([]backend.View{*v}, w)
	if p.scattered == 1 {
		if t, blocks, rest := transposed(&p.idx, n); rest > 0 {
			t.out, t.in = to, addr(v)
			return runKernel(d, "index", "transpose_"+sizeName(v.DType), &t, grid{x: blocks, y: rest, threads: 256})
		}
	}
	return d.launch(k, grid{x: ceil(n, blockThreads*w), threads: blockThreads})
}

// transposed recognizes a layout whose contiguous axis is not the innermost,
// and returns the parameters of the kernel that reads and writes in order, its
// tiles and the number of matrices (0: another layout).
func transposed(x *idx, n int) (t transposeParams, tiles, rest int) {
	const tile = 32
	inner := int64(1) // stride in the result
	axis := int32(-1)
	for i := range x.nd {
		if i > 0 && x.stride[0][i] == 1 && x.size[i] >= tile/2 {
			axis, t.outA = i, inner
		}
		inner *= int64(x.size[i])
	}
	if axis < 0 || x.size[0] < tile/2 || n >= 1<<31 {
		return t, 0, 0
	}
	t.a, t.b, t.inB = int64(x.size[axis]), int64(x.size[0]), x.stride[0][0]
	rest, inner = 1, int64(x.size[0])
	for i := int32(1); i < x.nd; i++ {
		if i != axis {
			t.rest.axis(int(x.size[i]), [3]int{int(inner), int(x.stride[0][i])})
			rest *= int(x.size[i])
		}
		inner *= int64(x.size[i])
	}
	if rest > 65535 {
		return t, 0, 0
	}
	t.rest.close(rest)
	t.tilesB = int64(ceil(int(t.b), tile))
	return t, int(t.tilesB) * ceil(int(t.a), tile), rest
}
