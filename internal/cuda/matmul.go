//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"sync/atomic"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() { runners[op.MatMul] = (*Device).runMatMul }

var tf32 atomic.Bool

// SetTF32 lets products and convolutions of float32 use TF32: faster on the
// tensor cores, with the 10 bits of mantissa of half precision. It is off
// unless the program asks for it.
func SetTF32(on bool) { tf32.Store(on) }

// TF32 reports whether float32 products may use TF32.
func TF32() bool { return tf32.Load() }

// matrix is an operand of a product as GEMMs want it: row-major, perhaps
// transposed, with a leading dimension and a step from one of a batch to the next.
type matrix struct {
	addr  uintptr
	ld    int
	step  int
	trans bool
}

// product is c = act(a·b + bias), batch times: a is m×k, b k×n, c contiguous.
type product struct {
	m, n, k, batch int
	a, b           matrix
	c              uintptr
	bias           uintptr // one element for each column; 0 without
	act            op.ID   // Invalid without
}

// work is the number of multiplications.
func (g *product) work() int { return g.m * g.n * g.k * g.batch }

// ends reports whether something happens to the product before it is the result.
func (g *product) ends() bool { return g.bias != 0 || g.act != op.Invalid }

func (d *Device) runMatMul(c *backend.Call) error {
	a, b := &c.In[0], &c.In[1]
	r := len(a.Shape)
	m, k, n := a.Shape[r-2], a.Shape[r-1], b.Shape[r-1]
	t := c.Out.DType
	if k == 0 {
		return d.fill(c.Out.Block.Addr, t, 0, c.Out.Elements())
	}
	if !matrixLike(a) || !matrixLike(b) {
		var err error
		if a, b, err = d.matrices(a, b); err != nil {
			return err
		}
	}
	g := product{m: m, n: n, k: k, batch: 1, c: c.Out.Block.Addr}
	batch := a.Shape[:r-2]
	// The inner batch axes that have one step in both operands go into one call.
	inner := len(batch)
	for inner > 0 {
		i := inner - 1
		if batch[i] == 1 {
			inner--
			continue
		}
		if g.batch == 1 {
			g.a.step, g.b.step = a.Strides[i], b.Strides[i]
		} else if a.Strides[i] != g.a.step*g.batch || b.Strides[i] != g.b.step*g.batch {
			break
		}
		g.batch *= batch[i]
		inner--
	}
	outer := batch[:inner]
	each := g.batch * m * n * t.Size()
	for o := range op.Elements(outer) {
		offA, offB := a.Offset, b.Offset
		for i, rest := inner-1, o; i >= 0; i-- {
			offA += rest % outer[i] * a.Strides[i]
			offB += rest % outer[i] * b.Strides[i]
			rest /= outer[i]
		}
		g.a.set(a, offA)
		g.b.set(b, offB)
		if err := d.gemm(t, &g); err != nil {
			return err
		}
		g.c += uintptr(each)
	}
	return nil
}

// matrices copies those operands that a GEMM cannot read in place: without a unit
// stride, or with a batch axis that runs backwards.
func (d *Device) matrices(a, b *backend.View) (*backend.View, *backend.View, error) {
	x, y := *a, *b
	err := d.inOrder([]*backend.View{&x, &y}, matrixLike)
	return &x, &y, err
}

// matrixLike reports whether a GEMM can read the last two axes in place.
func matrixLike(v *backend.View) bool {
	r := len(v.Shape)
	rows, cols := v.Shape[r-2], v.Shape[r-1]
	rs, cs := v.Strides[r-2], v.Strides[r-1]
	for i, s := range v.Strides[:r-2] {
		if s < 0 && v.Shape[i] > 1 {
			return false
		}
	}
	return (cs == 1 || cols == 1) && (rs >= cols || rows == 1) || (rs == 1 || rows == 1) && (cs >= rows || cols == 1)
}

func (x *matrix) set(v *backend.View, offset int) {
	r := len(v.Shape)
	rows, cols := v.Shape[r-2], v.Shape[r-1]
	rs, cs := v.Strides[r-2], v.Strides[r-1]
	x.addr = v.Block.Addr + uintptr(offset*v.DType.Size())
	if (cs == 1 || cols == 1) && (rs >= cols || rows == 1) {
		x.trans, x.ld = false, max(rs, cols)
		if rows == 1 {
			x.ld = cols
		}
		return
	}
	x.trans, x.ld = true, max(cs, rows)
	if cols == 1 {
		x.ld = rows
	}
}

// inOrder queues copies of the views that cannot be read as they are, and puts the
// copies in their place. They are valid until the next call.
func (d *Device) inOrder(views []*backend.View, readable func(*backend.View) bool) error {
	size := func(v *backend.View) int { return (v.Elements()*v.DType.Size() + 255) &^ 255 }
	room := 0
	for _, v := range views {
		if !readable(v) {
			room += size(v)
		}
	}
	if room == 0 {
		return nil
	}
	work, err := d.copyspace(room)
	if err != nil {
		return err
	}
	for _, v := range views {
		if !readable(v) {
			if *v, err = d.contiguous(v, work); err != nil {
				return err
			}
			work += uintptr(size(v))
		}
	}
	return nil
}

// contiguous queues a copy of v to addr and returns a view of the copy.
func (d *Device) contiguous(v *backend.View, to uintptr) (backend.View, error) {
	out := backend.View{Block: blockAt(to), Shape: v.Shape, Strides: op.Strides(v.Shape), DType: v.DType}
	return out, d.copyView(v, to)
}

// smallWork is how many multiplications a product may have that our own kernel
// for small ones does faster than the library.
const smallWork = 1 << 21

// byLibrary returns cuBLAS if it is there and should do a product of that many
// multiplications.
func (d *Device) byLibrary(t dtype.DType, work int) (*blas, error) {
	if !t.IsFloat() || work <= smallWork {
		return nil, nil
	}
	return d.cublas()
}

// gemm queues a product.
func (d *Device) gemm(t dtype.DType, g *product) error {
	b, err := d.byLibrary(t, g.work())
	switch {
	case err != nil:
		return err
	case b == nil:
		return d.ownGemm(t, g)
	case g.ends():
		return d.endedGemm(b, t, g)
	case g.batch == 1: // cuBLAS would choose the algorithm again each time
		l, err := d.cublasLt()
		if err != nil {
			return err
		}
		if l != nil {
			if done, err := l.gemm(d, b, t, g, ltPlain); done || err != nil {
				return err
			}
		}
	}
	return b.gemm(d, t, g)
}
