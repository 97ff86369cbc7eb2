package vec

// bounded applies an assembly function that is right only for |a| <= limit. Larger
// elements, and NaN, go to the plain Go function: an element's result never depends
// on its neighbors. dst may be a.
func bounded(dst, a []float32, limit float32, fast func(dst, a *float32, n int), plain func(dst, a []float32)) {
	const block = 1024
	for lo := 0; lo < len(dst); lo += block {
		hi := min(lo+block, len(dst))
		d, x := dst[lo:hi], a[lo:hi]
		if ReduceMaxF32(x) <= limit && ReduceMinF32(x) >= -limit {
			fast(&d[0], &x[0], len(d))
			continue
		}
		for i := 0; i < len(x); { // runs of elements that are all small, or all not
			small, from := within(x[i], limit), i
			for i++; i < len(x) && within(x[i], limit) == small; i++ {
			}
			if small {
				fast(&d[from], &x[from], i-from)
			} else {
				plain(d[from:i], x[from:i])
			}
		}
	}
}

func within(x, limit float32) bool { return x <= limit && x >= -limit }
