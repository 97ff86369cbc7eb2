package vec

// Take copies rows of size bytes from src, those that idx names, to adjacent
// places in dst. Indices must be in range.
func Take(dst, src []uint8, idx []int64, size int) {
	n := len(idx)
	dst = dst[:n*size]
	if n > 0 && size >= 32 {
		switch level {
		case AVX512:
			takeAVX512(&dst[0], &src[0], &idx[0], n, size)
			return
		case AVX2:
			takeAVX2(&dst[0], &src[0], &idx[0], n, size)
			return
		case NEON:
			takeNEON(&dst[0], &src[0], &idx[0], n, size)
			return
		}
	}
	for i, k := range idx {
		copy(dst[i*size:(i+1)*size], src[int(k)*size:])
	}
}
