package vec

import "unsafe"

// Rows is how many rows of a matrix SumRows, MaxRows and MinRows take in at a time:
// each is a pointer to as many elements as there are accumulators. The elements that
// lie `ahead` elements behind them, the rows of the next call, are prefetched
// meanwhile.
const Rows = 8

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
