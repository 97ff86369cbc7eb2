package cpu

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// dense kernels see contiguous operands and write a contiguous result.
type denseKernel[T any] func(c *backend.Call, dst []T, in [3][]T)

// images says which operands, and whether the result, have a part for each image
// of a batch along their first axis. A result without is a sum over images.
type images struct {
	in  [3]bool
	out bool
}

var allImages = images{in: [3]bool{true, true, true}, out: true}

func registerDense(id op.ID, im images, f32 denseKernel[float32], f64 denseKernel[float64]) {
	register(id, dtype.Float32, native(f32))
	register(id, dtype.Float64, native(f64))
	registerHalves(id, im, f32)
}

func registerHalves(id op.ID, im images, f denseKernel[float32]) {
	for _, h := range halfTypes {
		register(id, h.dtype, h.dense(im, f))
	}
}

func native[T any](f denseKernel[T]) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		var in [3][]T
		var s [3]*scratch
		for i := range c.In {
			in[i], s[i] = denseOf[T](&c.In[i])
		}
		f(c, elements[T](&c.Out, n), in)
		release(s[:]...)
		return nil
	}
}

// wideElements is how many elements of half-precision types are float32 at a time, where a
// batch has more than one image: they stay in the cache, and many threads have
// something to do.
const wideElements = 1 << 20

// throughFloat32 makes a kernel of half-precision types that computes in float32, some images at
// a time. How many does not depend on the threads.
func throughFloat32[H half](im images, f denseKernel[float32]) kernel {
	up, down := conversions[H]()
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		var in [3][]float32
		var shared, own [3]*scratch // of operands that are the same for all images, or not
		batch, each := 0, 0         // images, and their elements
		for i := range c.In {
			if im.in[i] {
				batch = c.In[i].Shape[0]
				each += op.Elements(c.In[i].Shape[1:])
			} else {
				in[i], shared[i] = widened(&c.In[i], up)
			}
		}
		if im.out {
			each += n / batch
		}
		step := min(max(1, wideElements/max(1, each)), max(1, batch))
		part := backend.Call{Op: c.Op, Attrs: c.Attrs, In: slices.Clone(c.In), Out: c.Out}
		size := n // of a part's result
		if im.out {
			size = n / batch * step
		}
		room, wide := scratchOf[float32](2 * size)
		sum, more := wide[:size], wide[size:]
		for first := 0; first == 0 || first < batch; first += step {
			count := min(step, batch-first)
			for i := range c.In {
				if im.in[i] {
					part.In[i] = someOf(&c.In[i], 0, first, count)
					in[i], own[i] = widened(&part.In[i], up)
				}
			}
			switch {
			case im.out:
				part.Out = someOf(&c.Out, 0, first, count)
				dst := sum[:part.Out.Elements()]
				f(&part, dst, in)
				narrowed(&part.Out, dst, down)
			case first == 0:
				f(&part, sum, in)
			default:
				f(&part, more, in)
				addTo(sum, more)
			}
			release(own[:]...)
		}
		if !im.out {
			narrowed(&c.Out, sum, down)
		}
		room.free()
		release(shared[:]...)
		return nil
	}
}

// someOf returns the part of v with count places of an axis, from number first on.
func someOf(v *backend.View, axis, first, count int) backend.View {
	part := *v
	part.Shape = slices.Clone(v.Shape)
	part.Shape[axis] = count
	part.Offset += first * v.Strides[axis]
	return part
}
