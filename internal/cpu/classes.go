package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerClasses(dtype.Float32, nativeLines[float32]())
	registerClasses(dtype.Float64, nativeLines[float64]())
	for _, h := range halfTypes {
		h.classes()
	}
}

func registerClasses[S any, T float](d dtype.DType, io lineIO[S, T]) {
	register(op.CrossEntropy, d, func(c *backend.Call) error { return crossEntropy(c, io) })
	register(op.CrossEntropyGrad, d, func(c *backend.Call) error { return crossEntropyGrad(c, io) })
}

// classRows calls f for every row of scores, as T, with its class. room has the size of a
// row where elements are converted, and is nil where they are not.
func classRows[S any, T float](c *backend.Call, io lineIO[S, T], f func(i, class int, x, room []T)) error {
	rows, width := c.In[0].Shape[0], c.In[0].Shape[1]
	classes, s, err := indices(&c.In[1], width, 0)
	if err != nil {
		return err
	}
	x, t := denseOf[S](&c.In[0])
	pool.For(rows, max(1, grainExpensive/max(width, 1)), func(lo, hi int) {
		var room []T
		if io.load != nil {
			var b *scratch
			b, room = scratchOf[T](width)
			defer b.free()
		}
		for i := lo; i < hi; i++ {
			row := x[i*width : (i+1)*width]
			if io.load == nil {
				f(i, int(classes[i]), any(row).([]T), nil)
				continue
			}
			io.load(room, row)
			f(i, int(classes[i]), room, room)
		}
	})
	release(t)
	release(s)
	return nil
}

// x - max first, as in logSoftmax: where scores are large their differences are not.
func crossEntropy[S any, T float](c *backend.Call, io lineIO[S, T]) error {
	n := c.Out.Elements()
	out := elements[T](&c.Out, n)
	var most, inverse []T
	if len(c.More) > 0 {
		most, inverse = elements[T](&c.More[0], n), elements[T](&c.More[1], n)
	}
	return classRows(c, io, func(i, class int, x, _ []T) {
		m := largestOf(x)
		sum := sumExpSub(x, m)
		out[i] = T(math.Log(sum)) - (x[class] - m)
		if most != nil {
			most[i], inverse[i] = m, T(1/sum)
		}
	})
}

func crossEntropyGrad[S any, T float](c *backend.Call, io lineIO[S, T]) error {
	g, a := denseOf[T](&c.In[2])
	most, b := denseOf[T](&c.In[3])
	inverse, d := denseOf[T](&c.In[4])
	width := c.Out.Shape[1]
	out := elements[S](&c.Out, c.Out.Elements())
	err := classRows(c, io, func(i, class int, x, room []T) {
		to := out[i*width : (i+1)*width]
		dst := room
		if room == nil {
			dst = any(to).([]T)
		}
		expSub(dst, x, most[i])
		scale(dst, dst, g[i]*inverse[i])
		dst[class] -= g[i]
		if room != nil {
			io.store(to, dst)
		}
	})
	for _, s := range []*scratch{a, b, d} {
		release(s)
	}
	return err
}
