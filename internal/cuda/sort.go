//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() { runners[op.ArgSort] = (*Device).runArgSort }

// The parameters of kernels/sort.cu.
type (
	keysParams struct {
		in, keys, order uintptr
		lines, length   uint64
		step            int64
		reverse, _      int32
		line            idx
	}
	sortParams struct {
		keys, order, keysOut, orderOut uintptr
		lines, length, run             uint64
		blocks                         uint64
	}
	positionsParams struct {
		out, order    uintptr
		lines, length uint64
		step          int64
		line          idx
	}
)

const sortRun = 1024 // RUN of kernels/sort.cu

// sortRoom is the working memory of sortKeys: keys and positions, twice.
func sortRoom(n int) int { return 2 * (n*12 + 1024) }

// sortKeys queues sorting each line of p's view, and returns the positions in order,
// in working memory. p.keys and p.order are filled in.
func (d *Device) sortKeys(p *keysParams, t dtype.DType) (uintptr, error) {
	n := int(p.lines * p.length)
	work, err := d.workspace(sortRoom(n))
	if err != nil {
		return 0, err
	}
	pad := func(x int) uintptr { return uintptr(x+255) &^ 255 }
	p.keys, p.order = work, work+2*pad(8*n)
	s := sortParams{keys: p.keys, order: p.order, keysOut: p.keys + pad(8*n), orderOut: p.order + pad(4*n), lines: p.lines, length: p.length}
	if err := runKernel(d, "sort", "sort_keys_"+typeName(t), p, oneEach(n)); err != nil {
		return 0, err
	}
	s.blocks = uint64(ceil(int(p.length), sortRun))
	if err := runKernel(d, "sort", "sort_runs", &s, grid{x: int(s.blocks * s.lines), threads: sortRun / 2}); err != nil {
		return 0, err
	}
	for s.run = sortRun; s.run < s.length; s.run *= 2 {
		s.keys, s.keysOut, s.order, s.orderOut = s.keysOut, s.keys, s.orderOut, s.order
		if err := runKernel(d, "sort", "sort_merge", &s, oneEach(n)); err != nil {
			return 0, err
		}
	}
	return s.orderOut, nil
}

func (d *Device) runArgSort(c *backend.Call) error {
	a, x := c.Attrs.(op.Axis), &c.In[0]
	k := keysParams{in: addr(x), length: uint64(x.Shape[a.Axis]), step: int64(x.Strides[a.Axis])}
	if a.Reverse {
		k.reverse = 1
	}
	p := positionsParams{out: c.Out.Block.Addr, length: k.length, step: int64(c.Out.Strides[a.Axis])}
	lines := 1
	for i := len(x.Shape) - 1; i >= 0; i-- {
		if i != a.Axis {
			k.line.axis(x.Shape[i], [3]int{x.Strides[i]})
			p.line.axis(x.Shape[i], [3]int{c.Out.Strides[i]})
			lines *= x.Shape[i]
		}
	}
	k.line.close(lines)
	p.line.close(lines)
	k.lines, p.lines = uint64(lines), uint64(lines)
	order, err := d.sortKeys(&k, x.DType)
	if err != nil {
		return err
	}
	p.order = order
	return runKernel(d, "sort", "sort_positions", &p, oneEach(int(p.lines*p.length)))
}
