//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.CrossEntropy] = (*Device).runCrossEntropy
	runners[op.CrossEntropyGrad] = (*Device).runCrossEntropyGrad
}

// classParams is Classes of kernels/classes.cu.
type classParams struct {
	out, most, inverse uintptr
	x, classes, grad   uintptr
	flag               uintptr
	rows, width        uint64
	rowStep, step      int64
	classStep          int64
	gradStep           int64
	mostStep           int64
	inverseStep        int64
	op, wide           int32
}

func (d *Device) classes(c *backend.Call) classParams {
	x, k := &c.In[0], &c.In[1]
	return classParams{out: c.Out.Block.Addr, x: addr(x), classes: addr(k), flag: d.flagDev, rows: uint64(x.Shape[0]), width: uint64(x.Shape[1]),
		rowStep: int64(x.Strides[0]), step: int64(x.Strides[1]), classStep: int64(k.Strides[0]), op: int32(c.Op), wide: wideIndex(k.DType)}
}

func (d *Device) runCrossEntropy(c *backend.Call) error {
	p := d.classes(c)
	if len(c.More) > 0 {
		p.most, p.inverse = c.More[0].Block.Addr, c.More[1].Block.Addr
	}
	rows, t := int(p.rows), typeName(c.In[0].DType)
	if p.width <= 1024 {
		return runKernel(d, "classes", "cross_entropy_warp_"+t, &p, grid{x: ceil(rows, 4), threads: 128})
	}
	return runKernel(d, "classes", "cross_entropy_block_"+t, &p, grid{x: rows, threads: 512})
}

func (d *Device) runCrossEntropyGrad(c *backend.Call) error {
	const piece = 8192 // PIECE
	p := d.classes(c)
	g, most, inverse := &c.In[2], &c.In[3], &c.In[4]
	p.grad, p.most, p.inverse = addr(g), addr(most), addr(inverse)
	p.gradStep, p.mostStep, p.inverseStep = int64(g.Strides[0]), int64(most.Strides[0]), int64(inverse.Strides[0])
	threads := 256
	if p.width < 1024 {
		threads = 64
	}
	return runKernel(d, "classes", "cross_entropy_grad_"+typeName(c.In[0].DType), &p, grid{x: int(p.rows) * ceil(int(p.width), piece), threads: threads})
}
