package cpu

import (
	"math"

	"github.com/locusml/locus/internal/cpu/pool"
)

// A line of at least longLine elements is worth several threads by itself: it is cut
// into parts whose results are combined in order, so that the result does not depend
// on the number of threads.
const longLine = 2 * part

// sumParts adds up the results of f for the parts of n elements.
func sumParts(n int, f func(lo, hi int) float64) float64 {
	partial := make([]float64, (n-1)/part+1)
	pool.For(n, part, func(lo, hi int) { partial[lo/part] = f(lo, hi) })
	s := 0.0
	for _, p := range partial {
		s += p
	}
	return s
}

func largestLong[T float](x []T) T {
	partial := make([]T, (len(x)-1)/part+1)
	pool.For(len(x), part, func(lo, hi int) { partial[lo/part] = largestOf(x[lo:hi]) })
	return largestOf(partial)
}

func sumLong[T float](x []T) float64 {
	return sumParts(len(x), func(lo, hi int) float64 { return sumOf(x[lo:hi]) })
}

func softmaxLong[T float](dst, x []T) {
	m := largestLong(x)
	s := sumParts(len(x), func(lo, hi int) float64 { return expSub(dst[lo:hi], x[lo:hi], m) })
	pool.For(len(x), part, func(lo, hi int) { scale(dst[lo:hi], dst[lo:hi], T(1/s)) })
}

func logSoftmaxLong[T float](dst, x []T) {
	m := largestLong(x)
	l := T(math.Log(sumParts(len(x), func(lo, hi int) float64 { return sumExpSub(x[lo:hi], m) })))
	pool.For(len(x), part, func(lo, hi int) {
		shift(dst[lo:hi], x[lo:hi], m)
		shift(dst[lo:hi], dst[lo:hi], l)
	})
}

func softmaxGradLong[T float](dst, g, y []T) {
	s := T(sumParts(len(g), func(lo, hi int) float64 { return dot64(g[lo:hi], y[lo:hi]) }))
	pool.For(len(g), part, func(lo, hi int) {
		shift(dst[lo:hi], g[lo:hi], s)
		times(dst[lo:hi], dst[lo:hi], y[lo:hi])
	})
}

func logSoftmaxGradLong[T float](dst, g, y []T) {
	s := T(sumLong(g))
	pool.For(len(g), part, func(lo, hi int) { logSoftmaxGradOf(dst[lo:hi], g[lo:hi], y[lo:hi], s) })
}

// runningSumLong is runningSum on several threads: the parts' sums, the sums
// in front of each part, and the running sums from there on.
func runningSumLong[T, A number](dst, x []T, reverse bool) {
	front := make([]A, (len(x)-1)/part+1)
	pool.For(len(x), part, func(lo, hi int) {
		var s A
		for _, v := range x[lo:hi] {
			s += A(v)
		}
		front[lo/part] = s
	})
	var s A
	for k := range front {
		i := k
		if reverse {
			i = len(front) - 1 - k
		}
		front[i], s = s, s+front[i]
	}
	pool.For(len(x), part, func(lo, hi int) { runningSum(dst[lo:hi], x[lo:hi], front[lo/part], reverse) })
}
