package cpu

import (
	"math"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
)

// Softmax of short rows, as classifiers have them: vector functions take many rows at
// once, since a call for each of them would cost more than its elements.

// shortRow is the longest row that counts as short.
const shortRow = 48

// rowsFunc computes rows of n adjacent elements. dst may not be a or b.
type rowsFunc[T any] func(dst, a, b []T, n int)

// alongRows calls f with some rows at a time if the operands are contiguous and their last
// axis, along which the op goes, is short. It reports false, having done nothing, if not.
func alongRows[S, T any](c *backend.Call, axis int, io lineIO[S, T], f rowsFunc[T]) bool {
	n := c.Out.Shape[axis]
	if n == 0 || n > shortRow || axis != len(c.Out.Shape)-1 || !c.Out.Contiguous() {
		return false
	}
	for i := range c.In {
		if !c.In[i].Contiguous() {
			return false
		}
	}
	size := c.Out.Elements()
	dst, a := elements[S](&c.Out, size), elements[S](&c.In[0], size)
	b := a
	if len(c.In) > 1 {
		b = elements[S](&c.In[1], size)
	}
	step := piece / n * n
	pool.For(size/n, max(1, grainExpensive/n), func(first, last int) {
		var room *scratch
		var wide []T
		if io.load != nil {
			room, wide = scratchOf[T](3 * piece)
		}
		for lo := first * n; lo < last*n; lo += step {
			hi := min(lo+step, last*n)
			if io.load == nil {
				f(convert[T](dst[lo:hi]), convert[T](a[lo:hi]), convert[T](b[lo:hi]), n)
				continue
			}
			d, x, y := wide[:hi-lo], wide[piece:][:hi-lo], wide[2*piece:][:hi-lo]
			io.load(x, a[lo:hi])
			if len(c.In) > 1 {
				io.load(y, b[lo:hi])
			}
			f(d, x, y, n)
			io.store(dst[lo:hi], d)
		}
		release(room)
	})
	return true
}

// eachRow calls f for the rows of dst and a.
func eachRow[T any](dst, a []T, n int, f func(dst, a []T)) {
	for ; len(a) >= n; dst, a = dst[n:], a[n:] {
		f(dst[:n], a[:n])
	}
}

// lessLargest subtracts a row's largest element. A NaN may be overlooked: it makes all
// of the row's results NaN anyway.
func lessLargest[T float](dst, x []T) {
	m := x[0]
	for _, e := range x {
		if e > m {
			m = e
		}
	}
	for i, e := range x {
		dst[i] = e - m
	}
}

// sumShort adds up a short row, in float64 and from left to right.
func sumShort[T float](x []T) float64 {
	s := 0.0
	for _, e := range x {
		s += float64(e)
	}
	return s
}

func softmaxRows[T float](dst, x, _ []T, n int) {
	eachRow(dst, x, n, lessLargest)
	expOf(dst, dst)
	for ; len(dst) >= n; dst = dst[n:] {
		row := dst[:n]
		s := T(1 / sumShort(row))
		for i := range row {
			row[i] *= s
		}
	}
}

// logSoftmaxRows keeps to the order of logSoftmax, which says why.
func logSoftmaxRows[T float](dst, x, _ []T, n int) {
	var room [piece]T
	e := room[:len(dst)]
	eachRow(dst, x, n, lessLargest)
	expOf(e, dst)
	eachRow(dst, e, n, func(row, e []T) {
		l := T(math.Log(sumShort(e)))
		for i := range row {
			row[i] -= l
		}
	})
}

func softmaxGradRows[T float](dst, g, y []T, n int) {
	times(dst, g, y)
	for ; len(dst) >= n; dst, g, y = dst[n:], g[n:], y[n:] {
		row := dst[:n]
		s := T(sumShort(row))
		for i := range row {
			row[i] = (g[i] - s) * y[i]
		}
	}
}

func logSoftmaxGradRows[T float](dst, g, y []T, n int) {
	expOf(dst, y)
	eachRow(dst, g, n, func(row, g []T) {
		s := T(sumShort(g))
		for i, e := range row {
			row[i] = g[i] - e*s
		}
	})
}
