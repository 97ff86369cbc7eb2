package cpu

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// ended makes a kernel that handles op.NormEpilogue, by single ops, from one that
// does not. Only images that lie channels last have it, which on the CPU are those of
// tests.
func ended(k kernel) kernel {
	return func(c *backend.Call) error {
		e, ok := c.Attrs.(op.NormEpilogue)
		if !ok {
			return k(c)
		}
		inner := *c
		inner.Attrs = e.Normalize
		if c.Op == op.BatchNormGrad {
			return endedGrad(k, &inner, e)
		}
		if e.Add {
			inner.In = c.In[:len(c.In)-1]
		}
		if err := k(&inner); err != nil {
			return err
		}
		if e.Add {
			if err := single(op.Add, nil, c.Out, c.Out, c.In[len(c.In)-1]); err != nil {
				return err
			}
		}
		if e.Act != op.Invalid {
			return single(e.Act, nil, c.Out, c.Out)
		}
		return nil
	}
}

// endedGrad computes the input of the activation again.
func endedGrad(k kernel, c *backend.Call, e op.NormEpilogue) error {
	g, x, t := c.In[0], c.In[1], c.Out.DType
	wide := t
	if t.Size() == 2 {
		wide = dtype.Float32
	}
	var used []*scratch
	defer func() { release(used...) }()
	room := func(t dtype.DType, shape []int) backend.View {
		size := op.Elements(shape) * t.Size()
		s := borrow(size)
		used = append(used, s)
		return backend.View{Block: &memory.Block{Region: memory.Region{Ptr: unsafe.Pointer(unsafe.SliceData(s.mem)), Size: size}}, Shape: shape, Strides: op.Strides(shape), DType: t}
	}
	v, value, passed := room(wide, x.Shape), room(t, x.Shape), room(t, x.Shape)
	channel := func(p backend.View) backend.View { // a number for each channel
		if p.DType != wide {
			w := room(wide, p.Shape)
			if err := single(op.CastTo, op.Cast{To: wide}, w, p); err != nil {
				panic(err) // there is a kernel for each type
			}
			p = w
		}
		strides := make([]int, len(x.Shape))
		strides[1] = p.Strides[0]
		p.Shape, p.Strides = x.Shape, strides
		return p
	}
	rest := c.In[2:]
	next := func() backend.View { p := rest[0]; rest = rest[1:]; return p }
	in := []backend.View{passed, x}
	var weight, bias backend.View
	if e.Weight {
		weight = next()
		in = append(in, weight)
	}
	if e.Bias {
		bias = next()
	}
	in = append(in, rest...)
	mean, rstd := next(), next()
	steps := []func() error{
		func() error { return single(op.CastTo, op.Cast{To: wide}, v, x) },
		func() error { return single(op.Sub, nil, v, v, channel(mean)) },
		func() error { return single(op.Mul, nil, v, v, channel(rstd)) },
	}
	if e.Weight {
		steps = append(steps, func() error { return single(op.Mul, nil, v, v, channel(weight)) })
	}
	if e.Bias {
		steps = append(steps, func() error { return single(op.Add, nil, v, v, channel(bias)) })
	}
	slope := op.ReluGrad
	if e.Act == op.Relu6 {
		slope = op.Relu6Grad
	}
	steps = append(steps, func() error { return single(op.CastTo, op.Cast{To: t}, value, v) },
		func() error { return single(slope, nil, passed, g, value) })
	for _, f := range steps {
		if err := f(); err != nil {
			return err
		}
	}
	c.In = in
	return k(c)
}

// single runs one op.
func single(id op.ID, a op.Attrs, out backend.View, in ...backend.View) error {
	c := &backend.Call{Op: id, Attrs: a, In: in, Out: out}
	return table[id][c.KernelType()](c)
}
