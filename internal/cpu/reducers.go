package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// The reducers: what each op does with elements. How a reduction walks over its
// operand is in reduce.go, reduce_rows.go and reduce_columns.go.

func init() {
	id32 := func(x float64) float32 { return float32(x) }
	id64 := func(x float64) float64 { return x }

	registerFloats(op.Sum,
		sumFloats[float32](id32).withRow(sumRow).withRows(vec.SumRowsF32, vec.AddF64),
		sumFloats[float64](id64).withRow(vec.SumF64).withRows(vec.SumRowsF64, vec.AddF64))
	registerFloats(op.Norm,
		normFloats[float32](id32).withRow(vec.SumSqF32),
		normFloats[float64](id64).withRow(vec.SumSqF64))
	registerFloats(op.Prod, prodFloats[float32](id32), prodFloats[float64](id64))
	finish := func(finish func(float64) float32) func(logSum) float32 {
		return func(a logSum) float32 { return finish(a.value()) }
	}
	registerFloats(op.LogSumExp, logSumExp[float32](finish(id32)), logSumExp[float64](logSum.value))

	inf := float32(math.Inf(1))
	registerFloats(op.Max,
		largest(-inf, same[float32]).withRow(vec.ReduceMaxF32).withRows(vec.MaxRowsF32, vec.MaxF32),
		largest(math.Inf(-1), same[float64]).withRow(vec.ReduceMaxF64).withRows(vec.MaxRowsF64, vec.MaxF64))
	registerFloats(op.Min,
		smallest(inf, same[float32]).withRow(vec.ReduceMinF32).withRows(vec.MinRowsF32, vec.MinF32),
		smallest(math.Inf(1), same[float64]).withRow(vec.ReduceMinF64).withRows(vec.MinRowsF64, vec.MinF64))
	max32, max64 := searched(argMax[float32](), vec.ArgMaxF32), searched(argMax[float64](), vec.ArgMaxF64)
	min32, min64 := searched(argMin[float32](), vec.ArgMinF32), searched(argMin[float64](), vec.ArgMinF64)
	registerFloats(op.ArgMax, max32, max64)

	registerFloats(op.ArgMin, min32, min64)
	for _, h := range halfTypes {
		h.reductions()
	}

	registerReduceInt[uint8](dtype.Uint8, 0, math.MaxUint8)
	registerReduceInt[int32](dtype.Int32, math.MinInt32, math.MaxInt32)
	registerReduceInt[int64](dtype.Int64, math.MinInt64, math.MaxInt64)
	register(op.Max, dtype.Bool, reduction[uint8](largest(0, same[uint8]), nil))
	register(op.Min, dtype.Bool, reduction[uint8](smallest(1, same[uint8]), nil))
}

func registerFloats[A32, A64, R32, R64 any](id op.ID, f32 *reducer[float32, A32, R32], f64 *reducer[float64, A64, R64]) {
	register(id, dtype.Float32, reduction[float32](f32, nil))
	register(id, dtype.Float64, reduction[float64](f64, nil))
}

// reduceHalf registers the reductions of a half-precision type, which round once.
func reduceHalf[H half](d dtype.DType, round func(float32) H) {
	from, _ := conversions[H]()
	last := func(x float64) H { return round(narrow(x)) }
	inf := float32(math.Inf(1))
	register(op.Sum, d, reduction(sumFloats[float32](last).withRow(vec.SumF32).withRows(vec.SumRowsF32, vec.AddF64), from))
	register(op.Norm, d, reduction(normFloats[float32](last).withRow(vec.SumSqF32), from))
	register(op.Prod, d, reduction(prodFloats[float32](last), from))
	register(op.LogSumExp, d, reduction(logSumExp[float32](func(a logSum) H { return last(a.value()) }), from))
	register(op.Max, d, reduction(largest(-inf, round).withRow(vec.ReduceMaxF32).withRows(vec.MaxRowsF32, vec.MaxF32), from))
	register(op.Min, d, reduction(smallest(inf, round).withRow(vec.ReduceMinF32).withRows(vec.MinRowsF32, vec.MinF32), from))
	register(op.ArgMax, d, reduction(searched(argMax[float32](), vec.ArgMaxF32), from))
	register(op.ArgMin, d, reduction(searched(argMin[float32](), vec.ArgMinF32), from))
}

func registerReduceInt[T integer](d dtype.DType, low, high T) {
	register(op.Sum, d, reduction[T](sumInts[T](), nil))
	register(op.Prod, d, reduction[T](prodInts[T](), nil))
	register(op.Max, d, reduction[T](largest(low, same[T]), nil))
	register(op.Min, d, reduction[T](smallest(high, same[T]), nil))
	register(op.ArgMax, d, reduction[T](argMax[T](), nil))
	register(op.ArgMin, d, reduction[T](argMin[T](), nil))
}

func same[T any](x T) T { return x }

// sumRow adds up a row. Long rows wait for memory, for which vec has a faster
// function.
func sumRow(x []float32) float64 {
	if len(x) < segment {
		return vec.SumF32(x)
	}
	return vec.SumFoursF32(x)
}

// sumFloats adds in float64, but for rows.
func sumFloats[T float, R any](finish func(float64) R) *reducer[T, float64, R] {
	return &reducer[T, float64, R]{
		spare:      make([]T, columns),
		overflowed: notFinite,
		row: func(x []T, _ int) float64 {
			var s0, s1 float64
			for len(x) >= 2 {
				s0 += float64(x[0])
				s1 += float64(x[1])
				x = x[2:]
			}
			if len(x) > 0 {
				s0 += float64(x[0])
			}
			return s0 + s1
		},
		column: func(acc []float64, x []T, _ int) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] += float64(x[i])
			}
		},
		merge:  func(a, b float64) float64 { return a + b },
		finish: finish,
	}
}

// notFinite reports whether any of x is infinite or NaN.
func notFinite(x []float64) bool {
	for _, v := range x {
		if v-v != 0 {
			return true
		}
	}
	return false
}

// normFloats adds squares in float64.
func normFloats[T float, R any](finish func(float64) R) *reducer[T, float64, R] {
	return &reducer[T, float64, R]{
		row: func(x []T, _ int) float64 {
			s := 0.0
			for _, v := range x {
				s += float64(v) * float64(v)
			}
			return s
		},
		column: func(acc []float64, x []T, _ int) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] += float64(x[i]) * float64(x[i])
			}
		},
		merge:  func(a, b float64) float64 { return a + b },
		finish: func(s float64) R { return finish(math.Sqrt(s)) },
	}
}

func prodFloats[T float, R any](finish func(float64) R) *reducer[T, float64, R] {
	return &reducer[T, float64, R]{
		start: 1,
		row: func(x []T, _ int) float64 {
			p := 1.0
			for _, v := range x {
				p *= float64(v)
			}
			return p
		},
		column: func(acc []float64, x []T, _ int) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] *= float64(x[i])
			}
		},
		merge:  func(a, b float64) float64 { return a * b },
		finish: finish,
	}
}

func sumInts[T integer]() *reducer[T, T, T] {
	return &reducer[T, T, T]{
		row: func(x []T, _ int) T {
			var s T
			for _, v := range x {
				s += v
			}
			return s
		},
		column: func(acc, x []T, _ int) { add(acc, acc, x) },
		merge:  func(a, b T) T { return a + b },
		finish: same[T],
	}
}

func prodInts[T integer]() *reducer[T, T, T] {
	return &reducer[T, T, T]{
		start: 1,
		row: func(x []T, _ int) T {
			p := T(1)
			for _, v := range x {
				p *= v
			}
			return p
		},
		column: func(acc, x []T, _ int) { mul(acc, acc, x) },
		merge:  func(a, b T) T { return a * b },
		finish: same[T],
	}
}

// largest and smallest rest on Go's max and min, which return NaN if one operand is
// NaN.

func largest[T number, R any](start T, finish func(T) R) *reducer[T, T, R] {
	return &reducer[T, T, R]{
		start: start,
		row: func(x []T, _ int) T {
			m0, m1 := start, start
			for len(x) >= 2 {
				m0, m1 = max(m0, x[0]), max(m1, x[1])
				x = x[2:]
			}
			for _, v := range x {
				m0 = max(m0, v)
			}
			return max(m0, m1)
		},
		column: func(acc, x []T, _ int) { maximum(acc, acc, x) },
		merge:  func(a, b T) T { return max(a, b) },
		finish: finish,
	}
}

func smallest[T number, R any](start T, finish func(T) R) *reducer[T, T, R] {
	return &reducer[T, T, R]{
		start: start,
		row: func(x []T, _ int) T {
			m0, m1 := start, start
			for len(x) >= 2 {
				m0, m1 = min(m0, x[0]), min(m1, x[1])
				x = x[2:]
			}
			for _, v := range x {
				m0 = min(m0, v)
			}
			return min(m0, m1)
		},
		column: func(acc, x []T, _ int) { minimum(acc, acc, x) },
		merge:  func(a, b T) T { return min(a, b) },
		finish: finish,
	}
}

// logSum is eᵐ·s: the largest element so far, and the sum relative to it.
type logSum struct{ m, s float64 }

func (a logSum) value() float64 {
	if math.IsInf(a.m, 0) {
		return a.m
	}
	return a.m + math.Log(a.s)
}

func (a logSum) merge(b logSum) logSum {
	m := max(a.m, b.m)
	if math.IsInf(m, 0) {
		return logSum{m: m}
	}
	return logSum{m, a.s*math.Exp(a.m-m) + b.s*math.Exp(b.m-m)}
}

func logSumExp[T float, R any](finish func(logSum) R) *reducer[T, logSum, R] {
	return &reducer[T, logSum, R]{
		start: logSum{m: math.Inf(-1)},
		row: func(x []T, _ int) logSum {
			m := largestOf(x)
			a := logSum{m: float64(m)}
			if !math.IsInf(a.m, 0) {
				a.s = sumExpSub(x, m)
			}
			return a
		},
		column: func(acc []logSum, x []T, _ int) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] = acc[i].merge(logSum{float64(x[i]), 1})
			}
		},
		merge:  logSum.merge,
		finish: finish,
	}
}

// best is an element and where it is; at is -1 before the first.
type best[T any] struct {
	v  T
	at int64
}

// argReducer is a reducer to positions.
type argReducer[T number] = reducer[T, best[T], int64]

// searched adds a faster search of a row to an argReducer.
func searched[T number](r *argReducer[T], search func([]T) int) *argReducer[T] {
	r.row = func(x []T, base int) best[T] {
		i := search(x)
		return best[T]{x[i], int64(base + i)}
	}
	return r
}

func argMax[T number]() *argReducer[T] {
	return argBest(func(a, b T) bool { return b > a || b != b && a == a })
}

func argMin[T number]() *argReducer[T] {
	return argBest(func(a, b T) bool { return b < a || b != b && a == a })
}

// argBest looks for the first element that none is better than.
func argBest[T number](better func(than, v T) bool) *reducer[T, best[T], int64] {
	return &reducer[T, best[T], int64]{
		start: best[T]{at: -1},
		row: func(x []T, base int) best[T] {
			v, at := x[0], 0
			for i, w := range x[1:] {
				if better(v, w) {
					v, at = w, i+1
				}
			}
			return best[T]{v, int64(base + at)}
		},
		column: func(acc []best[T], x []T, base int) {
			x = x[:len(acc)]
			for i := range acc {
				if acc[i].at < 0 || better(acc[i].v, x[i]) {
					acc[i] = best[T]{x[i], int64(base)}
				}
			}
		},
		merge: func(a, b best[T]) best[T] {
			if a.at < 0 || b.at >= 0 && better(a.v, b.v) {
				return b
			}
			return a
		},
		finish: func(a best[T]) int64 { return a.at },
	}
}
