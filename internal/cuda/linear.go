//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() { runners[op.Linear] = (*Device).runLinear }

func (d *Device) runLinear(c *backend.Call) error {
	t := c.Out.DType
	x, w := asRows(&c.In[0]), c.In[1]
	n, k := w.Shape[0], w.Shape[1]
	g := product{m: c.Out.Elements() / n, n: n, k: k, batch: 1, c: c.Out.Block.Addr, act: c.Attrs.(op.Epilogue).Act}
	var views []*backend.View
	if k > 0 {
		views = append(views, &x, &w)
	}
	var bias backend.View
	if len(c.In) == 3 {
		bias = c.In[2]
		views = append(views, &bias)
	}
	lib, err := d.byLibrary(t, g.m*n*k)
	if err != nil {
		return err
	}
	own := lib == nil
	err = d.inOrder(views, func(v *backend.View) bool {
		switch v {
		case &x: // our own kernels want it by rows
			return len(x.Shape) == 2 && matrixLike(&x) && !(own && columns(&x))
		case &w:
			return matrixLike(&w)
		}
		return v.Contiguous()
	})
	if err != nil {
		return err
	}
	if len(c.In) == 3 {
		g.bias = addr(&bias)
	}
	if k == 0 {
		if err := d.start(t, &g); err != nil {
			return err
		}
		return d.activate(t, &g, g.act)
	}
	x = asRows(&x) // where it is a copy now
	g.a.set(&x, x.Offset)
	w.Shape, w.Strides = []int{k, n}, []int{w.Strides[1], w.Strides[0]}
	g.b.set(&w, w.Offset)
	return d.gemm(t, &g)
}

// asRows returns v as the matrix of the rows of its last axis; v itself where one
// stride does not lead from each to the next.
func asRows(v *backend.View) backend.View {
	r := len(v.Shape)
	step, ok := v.RowStep()
	if !ok {
		return *v
	}
	rows := *v
	rows.Shape = []int{op.Elements(v.Shape[:r-1]), v.Shape[r-1]}
	rows.Strides = []int{step, v.Strides[r-1]}
	return rows
}

// columns reports whether a GEMM would read the matrix v as a transposed one.
func columns(v *backend.View) bool {
	var x matrix
	x.set(v, 0)
	return x.trans
}

// endedGemm queues a product with bias or activation by NVIDIA's libraries: in one
// kernel where cuBLASLt has that.
func (d *Device) endedGemm(b *blas, t dtype.DType, g *product) error {
	l, err := d.cublasLt()
	if err != nil {
		return err
	}
	if l != nil {
		epilogue, rest := ltActivation(t, g.act), op.Invalid
		if epilogue == 0 {
			rest = g.act
		}
		if g.bias != 0 {
			epilogue |= ltAddBias
		}
		if epilogue != 0 {
			if done, err := l.gemm(d, b, t, g, epilogue); err != nil {
				return err
			} else if done {
				return d.activate(t, g, rest)
			}
		}
	}
	// The product is added to the bias, not the bias to the product: a pass that
	// only writes instead of one that reads too.
	if g.bias != 0 {
		if err := d.start(t, g); err != nil {
			return err
		}
	}
	if err := b.gemm(d, t, g); err != nil {
		return err
	}
	return d.activate(t, g, g.act)
}

// start queues filling c with the bias, or with zeros.
func (d *Device) start(t dtype.DType, g *product) error {
	if g.bias == 0 {
		return d.fill(g.c, t, 0, g.m*g.n)
	}
	return d.copyView(&backend.View{Block: blockAt(g.bias), Shape: []int{g.m, g.n}, Strides: []int{0, 1}, DType: t}, g.c)
}

// activate queues passing c through an activation, in place.
func (d *Device) activate(t dtype.DType, g *product, act op.ID) error {
	if act == op.Invalid {
		return nil
	}
	v := backend.View{Block: blockAt(g.c), Shape: []int{g.m * g.n}, Strides: []int{1}, DType: t}
	return d.runElementwise(&backend.Call{Op: act, In: []backend.View{v}, Out: v})
}

// activateRest queues what our own kernels for large products leave to do: any
// activation but relu and relu6.
func (d *Device) activateRest(t dtype.DType, g *product) error {
	if g.act == op.Relu || g.act == op.Relu6 {
		return nil
	}
	return d.activate(t, g, g.act)
}
