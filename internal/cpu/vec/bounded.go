package vec

// bounded applies an assembly function that is right only for |a| <= limit: it
// looks at a block at a time and gives a block that holds a larger element, or
// a NaN, to the plain Go function.
func bounded(dst, a []float32, limit float32, fast func(dst, a *float32, n int), plain func(dst, a []float32)) {
	const block = 1024
	for lo := 0; lo < len(dst); lo += block {
		hi := min(lo+block, len(dst))
		d, x := dst[lo:hi], a[lo:hi]
		if ReduceMaxF32(x) <= limit && ReduceMinF32(x) >= -limit {
			fast(&d[0], &x[0], len(d))
		} else {
			plain(d, x)
		}
	}
}
