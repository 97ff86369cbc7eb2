//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.Blend, op.BlendSquare, op.AdamStep} {
		runners[id] = (*Device).runOptimize
	}
}

// optimizeParams is Optimize of kernels/optimize.cu.
type optimizeParams struct {
	e elementwise
	s [4]float64
}

func (d *Device) runOptimize(c *backend.Call) error {
	t := c.Out.DType
	k := d.found.elementwise[c.Op][t]
	if k == nil {
		var err error
		if k, err = d.kernel("optimize", c.Op.String()+"_"+typeName(t)); err != nil {
			return err
		}
		d.found.elementwise[c.Op][t] = k
	}
	p := paramsOf[optimizeParams](d, k)
	switch a := c.Attrs.(type) {
	case op.Scales:
		p.s = [4]float64{a.A, a.B}
	case op.Adam:
		p.s = [4]float64{a.Keep, a.Rate, a.Root, a.Eps}
	}
	n, v := c.Out.Elements(), lanes(t)
	p.e.out, p.e.n = c.Out.Block.Addr, uint64(n)
	p.e.fill(c.In, v)
	return d.launch(k, grid{x: ceil(n, blockThreads*v), threads: blockThreads})
}
