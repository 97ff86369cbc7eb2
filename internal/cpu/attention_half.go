package cpu

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, h := range halfTypes {
		register(op.Attend, h.dtype, h.inBlocks(attendBlocks, h.attend))
		register(op.AttendGrad, h.dtype, h.inBlocks(attendGradBlocks, h.attendGrad))
	}
}

// attendHalf computes in float32, some matrices at a time.
func attendHalf[H half](c *backend.Call) error {
	if c.Out.Elements() == 0 {
		return nil
	}
	up, down := conversions[H]()
	attendStacks(c, wideElements, func(in []backend.View, out, saved *backend.View) {
		a, s := newAttention(c.Attrs.(op.Attention), in, wideMatrices(up))
		n := out.Elements()
		wide, dst := scratchOf[float32](n)
		a.dst = dst
		if saved != nil {
			a.lse = elements[float32](saved, saved.Elements())
		}
		a.run(n)
		narrowed(out, dst, down)
		release(append(s, wide)...)
	})
	return nil
}

// attendStacks calls f with parts of the operands, of the result and of what is saved, if anything is, of some
// `size` elements together.
func attendStacks(c *backend.Call, size int, f func(in []backend.View, out, saved *backend.View)) {
	stacks := append(slices.Clone(c.In), c.Out)
	if len(c.More) > 0 {
		stacks = append(stacks, asMatrices(c.More[0]))
	}
	eachPart(stacks, size, 1, func(v []backend.View, _ int) {
		var saved *backend.View
		if len(c.More) > 0 {
			saved = &v[len(c.In)+1]
		}
		f(v[:len(c.In)], &v[len(c.In)], saved)
	})
}

// attendGradHalf computes in float32, some matrices at a time, and not so few that their
// number decides how they are divided.
func attendGradHalf[H half](c *backend.Call) error {
	if c.Out.Elements() == 0 {
		return nil
	}
	up, down := conversions[H]()
	q, k := c.In[1].Elements(), c.In[2].Elements()
	stacks := slices.Clone(c.In)
	stacks[5] = asMatrices(stacks[5])
	eachPart(stacks, wideElements, manyBatches, func(in []backend.View, first int) {
		sizes := [3]int{in[1].Elements(), in[2].Elements(), in[3].Elements()}
		s, dst := scratchOf[float32](sizes[0] + sizes[1] + sizes[2])
		attentionGrads(&backend.Call{Op: c.Op, Attrs: c.Attrs, In: in}, dst, wideMatrices(up))
		to := c.Out // the gradients of q, k and v, one after the other
		for i, begin := range [3]int{0, q, q + k} {
			r := len(in[1+i].Shape)
			to.Offset = c.Out.Offset + begin + first*in[1+i].Shape[r-2]*in[1+i].Shape[r-1]
			if sizes[i] > 0 {
				narrowed(&to, dst[:sizes[i]], down)
			}
			dst = dst[sizes[i]:]
		}
		s.free()
	})
	return nil
}

// asMatrices makes a column of each row.
func asMatrices(v backend.View) backend.View {
	v.Shape, v.Strides = append(slices.Clone(v.Shape), 1), append(slices.Clone(v.Strides), 1)
	return v
}

// wideMatrices returns operands of a half-precision type as float32.
func wideMatrices[H half](up func([]float32, []H)) func(*backend.View) (*batch[float32], *scratch) {
	return func(v *backend.View) (*batch[float32], *scratch) {
		f, s := widened(v, up)
		return contiguousMatrices(f, v.Shape), s
	}
}

// eachPart calls f with parts of stacks of matrices, whose axes but the last two have
// the same sizes, and with the number of a part's first matrix. Parts have some
// `size` elements, and at least so many matrices if there are.
func eachPart(stacks []backend.View, size, least int, f func(part []backend.View, first int)) {
	lead := len(stacks[0].Shape) - 2
	each := 0 // elements of a matrix of every stack
	for i := range stacks {
		s := stacks[i].Shape
		each += s[lead] * s[lead+1]
	}
	want := max(least, size/max(1, each)) // matrices of a part
	var divide func(v []backend.View, axis, first int)
	divide = func(v []backend.View, axis, first int) {
		if axis >= lead || op.Elements(v[0].Shape[axis:lead]) <= want {
			f(v, first)
			return
		}
		inner := op.Elements(v[0].Shape[axis+1 : lead])
		step := max(1, want/inner)
		for i := 0; i < v[0].Shape[axis]; i += step {
			part := make([]backend.View, len(v))
			for k := range v {
				part[k] = someOf(&v[k], axis, i, min(step, v[k].Shape[axis]-i))
			}
			divide(part, axis+1, first+i*inner)
		}
	}
	divide(stacks, 0, 0)
}
