package vec

import "unsafe"

// Rows is how many rows of a matrix SumRows, MaxRows and MinRows take in at a
// time: each is a pointer to as many elements as there are accumulators. What
// lies ahead elements behind them is fetched meanwhile, the rows of the next call.
const Rows = 8

// SumRowsF32 adds the columns of rows to acc. Those of the eight rows are added
// as float32 before that sum is added as float64, which is three roundings of
// an element at most, and may overflow where float64 would not.
func SumRowsF32(acc []float64, rows *[Rows]*float32, ahead int) {
	n := 0
	switch level {
	case AVX512:
		if n = len(acc) &^ 31; n > 0 {
			sumRowsF32AVX512(&acc[0], rows, ahead, n)
		}
	case AVX2:
		if n = len(acc) &^ 15; n > 0 {
			sumRowsF32AVX2(&acc[0], rows, ahead, n)
		}
	case NEON:
		if n = len(acc) &^ 7; n > 0 {
			sumRowsF32NEON(&acc[0], rows, ahead, n)
		}
	}
	sumRowsGo(acc, rows, n)
}

// SumRowsF64 is SumRowsF32 for float64.
func SumRowsF64(acc []float64, rows *[Rows]*float64, ahead int) {
	n := 0
	switch level {
	case AVX512:
		if n = len(acc) &^ 15; n > 0 {
			sumRowsF64AVX512(&acc[0], rows, ahead, n)
		}
	case AVX2:
		if n = len(acc) &^ 7; n > 0 {
			sumRowsF64AVX2(&acc[0], rows, ahead, n)
		}
	case NEON:
		if n = len(acc) &^ 3; n > 0 {
			sumRowsF64NEON(&acc[0], rows, ahead, n)
		}
	}
	sumRowsGo(acc, rows, n)
}

// MaxRowsF32 makes acc the largest of itself and the columns of rows, NaN if
// any is NaN.
func MaxRowsF32(acc []float32, rows *[Rows]*float32, ahead int) {
	n := 0
	switch level {
	case AVX512:
		if n = len(acc) &^ 31; n > 0 {
			maxRowsF32AVX512(&acc[0], rows, ahead, n)
		}
	case AVX2:
		if n = len(acc) &^ 15; n > 0 {
			maxRowsF32AVX2(&acc[0], rows, ahead, n)
		}
	case NEON:
		if n = len(acc) &^ 7; n > 0 {
			maxRowsF32NEON(&acc[0], rows, ahead, n)
		}
	}
	maxRowsGo(acc, rows, n)
}

// MaxRowsF64 is MaxRowsF32 for float64.
func MaxRowsF64(acc []float64, rows *[Rows]*float64, ahead int) {
	n := 0
	switch level {
	case AVX512:
		if n = len(acc) &^ 15; n > 0 {
			maxRowsF64AVX512(&acc[0], rows, ahead, n)
		}
	case AVX2:
		if n = len(acc) &^ 7; n > 0 {
			maxRowsF64AVX2(&acc[0], rows, ahead, n)
		}
	case NEON:
		if n = len(acc) &^ 3; n > 0 {
			maxRowsF64NEON(&acc[0], rows, ahead, n)
		}
	}
	maxRowsGo(acc, rows, n)
}

// MinRowsF32 makes acc the smallest of itself and the columns of rows, NaN if
// any is NaN.
func MinRowsF32(acc []float32, rows *[Rows]*float32, ahead int) {
	n := 0
	switch level {
	case AVX512:
		if n = len(acc) &^ 31; n > 0 {
			minRowsF32AVX512(&acc[0], rows, ahead, n)
		}
	case AVX2:
		if n = len(acc) &^ 15; n > 0 {
			minRowsF32AVX2(&acc[0], rows, ahead, n)
		}
	case NEON:
		if n = len(acc) &^ 7; n > 0 {
			minRowsF32NEON(&acc[0], rows, ahead, n)
		}
	}
	minRowsGo(acc, rows, n)
}

// MinRowsF64 is MinRowsF32 for float64.
func MinRowsF64(acc []float64, rows *[Rows]*float64, ahead int) {
	n := 0
	switch level {
	case AVX512:
		if n = len(acc) &^ 15; n > 0 {
			minRowsF64AVX512(&acc[0], rows, ahead, n)
		}
	case AVX2:
		if n = len(acc) &^ 7; n > 0 {
			minRowsF64AVX2(&acc[0], rows, ahead, n)
		}
	case NEON:
		if n = len(acc) &^ 3; n > 0 {
			minRowsF64NEON(&acc[0], rows, ahead, n)
		}
	}
	minRowsGo(acc, rows, n)
}

// columnsFrom returns the rows' elements from column n on, of columns in all.
func columnsFrom[T float](rows *[Rows]*T, n, columns int) (x [Rows][]T) {
	for r, p := range rows {
		x[r] = unsafe.Slice(p, columns)[n:]
	}
	return x
}

func sumRowsGo[T float](acc []float64, rows *[Rows]*T, n int) {
	if n == len(acc) {
		return
	}
	x := columnsFrom(rows, n, len(acc))
	for i := range acc[n:] {
		acc[n+i] += float64(((x[0][i] + x[1][i]) + (x[2][i] + x[3][i])) + ((x[4][i] + x[5][i]) + (x[6][i] + x[7][i])))
	}
}

func maxRowsGo[T float](acc []T, rows *[Rows]*T, n int) {
	if n == len(acc) {
		return
	}
	x := columnsFrom(rows, n, len(acc))
	for i, m := range acc[n:] {
		acc[n+i] = max(m, x[0][i], x[1][i], x[2][i], x[3][i], x[4][i], x[5][i], x[6][i], x[7][i])
	}
}

func minRowsGo[T float](acc []T, rows *[Rows]*T, n int) {
	if n == len(acc) {
		return
	}
	x := columnsFrom(rows, n, len(acc))
	for i, m := range acc[n:] {
		acc[n+i] = min(m, x[0][i], x[1][i], x[2][i], x[3][i], x[4][i], x[5][i], x[6][i], x[7][i])
	}
}
