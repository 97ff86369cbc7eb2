package vec

// argBlock is how many elements an argmax looks at at a time. The extreme of a
// block comes from the vector reduction; only the block that holds the overall
// extreme is searched for its place.
const argBlock = 256

// ArgMaxF32 returns the index of the first largest element of a; a NaN counts
// as larger than anything. It panics if a is empty.
func ArgMaxF32(a []float32) int {
	return argExtreme(a, ReduceMaxF32, func(x, y float32) bool { return x > y })
}

// ArgMinF32 returns the index of the first smallest element of a; a NaN counts
// as smaller than anything. It panics if a is empty.
func ArgMinF32(a []float32) int {
	return argExtreme(a, ReduceMinF32, func(x, y float32) bool { return x < y })
}

// ArgMaxF64 is ArgMaxF32 for float64.
func ArgMaxF64(a []float64) int {
	return argExtreme(a, ReduceMaxF64, func(x, y float64) bool { return x > y })
}

// ArgMinF64 is ArgMinF32 for float64.
func ArgMinF64(a []float64) int {
	return argExtreme(a, ReduceMinF64, func(x, y float64) bool { return x < y })
}

func argExtreme[T float](a []T, reduce func([]T) T, better func(x, y T) bool) int {
	if len(a) == 0 {
		panic("vec: arg of the extreme of nothing")
	}
	best, at := a[0], 0
	for lo := 0; lo < len(a); lo += argBlock {
		v := reduce(a[lo:min(lo+argBlock, len(a))])
		if v != v {
			best, at = v, lo
			break
		}
		if better(v, best) {
			best, at = v, lo
		}
	}
	for i, x := range a[at:] {
		if x == best || x != x {
			return at + i
		}
	}
	return at
}
