//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cuda/kernels"
	"github.com/locusml/locus/internal/op"
)

// elementwise is Elementwise of kernels/elementwise.cuh.
type elementwise struct {
	out       uintptr
	in        [3]uintptr
	bits      [3]uint64
	n         uint64
	mode      [3]int32
	find      int32
	scattered int32
	_         int32
	idx       idx
}

// How an operand's elements are found: Mode of kernels/elementwise.cuh.
const (
	contiguous = iota
	constant
	row
	splat
	scattered
)

const blockThreads = 256

// heavy marks the ops whose kernels make fewer elements per thread, as the kernels'
// sources say.
var heavy = func() (h [op.NumOps]bool) {
	for _, name := range kernels.Heavy {
		def, ok := op.ByName(name)
		if !ok {
			panic("cuda: kernels.Heavy names " + name + ", which is not an op")
		}
		h[def.ID] = true
	}
	return h
}()

// lanes is LANES of kernels/locus.cuh.
func lanes(t dtype.DType) int { return min(8, 16/t.Size()) }

// width is the number of elements that a thread of the op's kernel makes: WIDE or
// HEAVY of kernels/elementwise.cuh.
func width(id op.ID, t, out dtype.DType) int {
	switch {
	case id == op.CastTo:
		return min(lanes(t), lanes(out))
	case heavy[id] && t.IsFloat():
		if t == dtype.Float64 {
			return 1
		}
		return 2
	}
	return lanes(t)
}

func init() {
	for _, def := range op.All() {
		if def.Elementwise() && def.ID != op.Copy {
			runners[def.ID] = (*Device).runElementwise
		}
	}
}

func (d *Device) runElementwise(c *backend.Call) error {
	t := c.KernelType()
	k := d.found.elementwise[c.Op][t]
	if k == nil || c.Op == op.CastTo {
		var err error
		if k, err = d.elementwiseKernel(c.Op, t, c.Out.DType); err != nil {
			return err
		}
		if c.Op != op.CastTo {
			d.found.elementwise[c.Op][t] = k
		}
	}
	v := width(c.Op, t, c.Out.DType)
	p := paramsOf[elementwise](d, k)
	n := c.Out.Elements()
	p.out, p.n = c.Out.Block.Addr, uint64(n)
	p.fill(c.In, v)
	return d.launch(k, grid{x: ceil(n, blockThreads*v), threads: blockThreads})
}

func (d *Device) elementwiseKernel(id op.ID, t, out dtype.DType) (*kernel, error) {
	switch id {
	case op.CastTo:
		return d.kernel("cast", "cast_"+typeName(t)+"_"+typeName(out))
	case op.Where:
		return d.kernel("binary", "where_"+sizeName(t))
	}
	file := "binary"
	if op.Get(id).Family == op.UnaryFamily {
		file = "unary"
	}
	return d.kernel(file, id.String()+"_"+typeName(t))
}

// fill says where the operands are. Everything else in p is overwritten too,
// because the block held other parameters before.
func (p *elementwise) fill(in []backend.View, v int) {
	p.find, p.scattered, p.mode = 0, 0, [3]int32{}
	simple := true
	for k := range in {
		x := &in[k]
		p.bits[k], p.in[k] = x.Bits, 0
		if x.Const() {
			p.mode[k] = constant
			continue
		}
		p.in[k] = addr(x)
		if !x.Contiguous() || p.in[k]%uintptr(v*x.DType.Size()) != 0 {
			simple = false
		}
	}
	if simple {
		return
	}
	p.idx = idx{}
	shape := in[0].Shape
	for i := len(shape) - 1; i >= 0; i-- {
		var s [3]int
		for k := range in {
			if !in[k].Const() {
				s[k] = in[k].Strides[i]
			}
		}
		p.idx.axis(shape[i], s)
	}
	p.idx.close(int(p.n))
	for k := range in {
		if in[k].Const() {
			continue
		}
		p.mode[k] = p.idx.mode(k, v, in[k].DType.Size(), p.in[k], in[k].Contiguous())
		if p.mode[k] != contiguous {
			p.find = 1
		}
		if p.mode[k] == scattered {
			p.scattered = 1
		}
	}
}

// mode says how operand k can be loaded v elements at a time.
func (x *idx) mode(k, v, size int, base uintptr, dense bool) int32 {
	if x.nd == 0 { // a single element
		return scattered
	}
	aligned := base%uintptr(v*size) == 0
	if dense && aligned {
		return contiguous
	}
	if int(x.size[0])%v != 0 {
		return scattered
	}
	switch x.stride[k][0] {
	case 0:
		return splat
	case 1:
		for i := int32(1); i < x.nd; i++ {
			aligned = aligned && x.stride[k][i]%int64(v) == 0
		}
		if aligned {
			return row
		}
	}
	return scattered
}
