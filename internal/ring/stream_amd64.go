package ring

// stream copies src to dst, which is aligned to pipeAlign, past the caches.
func stream(dst, src []byte) {
	blocks := len(src) / pipeAlign * pipeAlign
	if blocks > 0 {
		streamBlocks(&dst[0], &src[0], blocks)
	}
	copy(dst[blocks:], src[blocks:])
}

// streamBlocks copies n > 0 bytes in blocks of pipeAlign with stores that bypass the caches,
// and waits until others can see them.
//
//go:noescape
func streamBlocks(dst, src *byte, n int)
