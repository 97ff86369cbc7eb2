package vec

// AveragePairsF32 stores the averages of 2×2 elements of two rows:
// (a[2i] + a[2i+1] + b[2i] + b[2i+1])/4, quarters first, so that no sum
// overflows. dst must not overlap a or b.
func AveragePairsF32(dst, a, b []float32) {
	n := len(dst)
	a, b = a[:2*n], b[:2*n]
	if n >= 8 {
		switch level {
		case AVX512:
			averagePairsF32AVX512(&dst[0], &a[0], &b[0], n)
			return
		case AVX2:
			averagePairsF32AVX2(&dst[0], &a[0], &b[0], n)
			return
		case NEON:
			averagePairsF32NEON(&dst[0], &a[0], &b[0], n)
			return
		}
	}
	for i := range dst {
		x, y := (*[2]float32)(a[2*i:]), (*[2]float32)(b[2*i:])
		dst[i] = (0.25*x[0] + 0.25*y[0]) + (0.25*x[1] + 0.25*y[1])
	}
}

// SpreadPairsF32 is the transpose of AveragePairsF32: it stores a[i]/4 at 2i and 2i+1
// of both dst and also, which must not overlap a. For up to 8 elements of a, the end
// of dst may overlap the beginning of also: there also's elements are kept.
func SpreadPairsF32(dst, also, a []float32) {
	n := len(a)
	dst, also = dst[:2*n], also[:2*n]
	if n >= 8 {
		switch level {
		case AVX512:
			spreadPairsF32AVX512(&dst[0], &also[0], &a[0], n)
			return
		case AVX2:
			spreadPairsF32AVX2(&dst[0], &also[0], &a[0], n)
			return
		case NEON:
			spreadPairsF32NEON(&dst[0], &also[0], &a[0], n)
			return
		}
	}
	for _, to := range [2][]float32{dst, also} {
		for i, x := range a {
			p := (*[2]float32)(to[2*i:])
			p[0], p[1] = 0.25*x, 0.25*x
		}
	}
}

// LargestPairsGradF32 stores g[i] at the largest of the 2×2 elements 2i and 2i+1 of two
// rows a and b, in dst and also, the rest of which becomes 0. Of several largest the
// first counts, and a NaN is larger than any number. dst and also must not overlap the
// others.
func LargestPairsGradF32(dst, also, a, b, g []float32) {
	n := len(g)
	dst, also, a, b = dst[:2*n], also[:2*n], a[:2*n], b[:2*n]
	if n >= 8 {
		switch level {
		case AVX512:
			largestPairsGradF32AVX512(&dst[0], &also[0], &a[0], &b[0], &g[0], n)
			return
		case AVX2:
			largestPairsGradF32AVX2(&dst[0], &also[0], &a[0], &b[0], &g[0], n)
			return
		case NEON:
			largestPairsGradF32NEON(&dst[0], &also[0], &a[0], &b[0], &g[0], n)
			return
		}
	}
	for i, d := range g {
		at, _ := largestPair(a, b, i)
		var share [4]float32
		share[at] = d
		*(*[2]float32)(dst[2*i:]) = [2]float32(share[:2])
		*(*[2]float32)(also[2*i:]) = [2]float32(share[2:])
	}
}

// LargestPairsF32 stores the largest of the 2×2 elements 2i and 2i+1 of two rows a and
// b. Of several largest the first counts, and a NaN is larger than any number. dst must
// not overlap a or b.
func LargestPairsF32(dst, a, b []float32) {
	n := len(dst)
	a, b = a[:2*n], b[:2*n]
	if n >= 8 {
		switch level {
		case AVX512:
			largestPairsF32AVX512(&dst[0], &a[0], &b[0], n)
			return
		case AVX2:
			largestPairsF32AVX2(&dst[0], &a[0], &b[0], n)
			return
		case NEON:
			largestPairsF32NEON(&dst[0], &a[0], &b[0], n)
			return
		}
	}
	for i := range dst {
		_, dst[i] = largestPair(a, b, i)
	}
}

// largestPair finds the largest element of window i.
func largestPair(a, b []float32, i int) (at int, best float32) {
	best = a[2*i]
	for k, x := range [4]float32{best, a[2*i+1], b[2*i], b[2*i+1]} {
		if x > best || x != x && best == best {
			at, best = k, x
		}
	}
	return at, best
}
