package vec

// SplitPairsF32 stores the elements of a at even places in even and the others
// in odd. Slices must not overlap.
func SplitPairsF32(even, odd, a []float32) {
	n := len(even)
	odd, a = odd[:n], a[:2*n]
	i := 0
	if m := n &^ 7; m > 0 {
		switch level {
		case AVX512:
			splitPairsF32AVX512(&even[0], &odd[0], &a[0], m)
			i = m
		case AVX2:
			splitPairsF32AVX2(&even[0], &odd[0], &a[0], m)
			i = m
		case NEON:
			splitPairsF32NEON(&even[0], &odd[0], &a[0], m)
			i = m
		}
	}
	for ; i < n; i++ {
		even[i], odd[i] = a[2*i], a[2*i+1]
	}
}

// EvensF32 stores the elements of a at even places in dst.
func EvensF32(dst, a []float32) {
	n := len(dst)
	i := 0
	if m := min(n, len(a)/2) &^ 7; m > 0 {
		switch level {
		case AVX512:
			evensF32AVX512(&dst[0], &a[0], m)
			i = m
		case AVX2:
			evensF32AVX2(&dst[0], &a[0], m)
			i = m
		case NEON:
			evensF32NEON(&dst[0], &a[0], m)
			i = m
		}
	}
	for ; i < n; i++ {
		dst[i] = a[2*i]
	}
}

// JoinPairsF32 is SplitPairsF32's opposite: it stores even's elements at the even places of
// dst and odd's at the others.
func JoinPairsF32(dst, even, odd []float32) {
	n := len(even)
	odd, dst = odd[:n], dst[:2*n]
	i := 0
	if m := n &^ 7; m > 0 {
		switch level {
		case AVX512:
			joinPairsF32AVX512(&dst[0], &even[0], &odd[0], m)
			i = m
		case AVX2:
			joinPairsF32AVX2(&dst[0], &even[0], &odd[0], m)
			i = m
		case NEON:
			joinPairsF32NEON(&dst[0], &even[0], &odd[0], m)
			i = m
		}
	}
	for ; i < n; i++ {
		dst[2*i], dst[2*i+1] = even[i], odd[i]
	}
}

// ClaimF32 moves elements of g to dst, adding them, where a is m or NaN; in g they
// become 0. Called for one candidate after the other it adds g to the first that is
// the largest, m.
func ClaimF32(dst, g, a, m []float32) {
	n := len(dst)
	g, a, m = g[:n], a[:n], m[:n]
	i := 0
	if k := n &^ 7; k > 0 {
		switch level {
		case AVX512:
			claimF32AVX512(&dst[0], &g[0], &a[0], &m[0], k)
			i = k
		case AVX2:
			claimF32AVX2(&dst[0], &g[0], &a[0], &m[0], k)
			i = k
		case NEON:
			claimF32NEON(&dst[0], &g[0], &a[0], &m[0], k)
			i = k
		}
	}
	for ; i < n; i++ {
		if a[i] == m[i] || a[i] != a[i] {
			dst[i] += g[i]
			g[i] = 0
		}
	}
}
