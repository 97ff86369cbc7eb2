package gemm

import "unsafe"

// pairing says how kernels take bfloat16 matrices: as words of two neighbors
// along k, or not at all.
type pairing uint8

const (
	noPairs   pairing = iota
	pairWords         // panels of words, laid out as panels of float32 are
	pairLines         // B likewise; A's panels have 16 words of each line, side by side
)

// unit is the number of columns of a panel, along k, that kernels take at once.
func (ks *kernels[T]) unit() int {
	if ks.pairs == pairLines {
		return 16
	}
	return 4
}

// paired turns bfloat16 sources of depth k into sources of words.
func (ks *kernels[T]) paired(a, b source[T], k int) (source[T], source[T], int) {
	words := (k + 1) / 2
	a.pairs, b.pairs = ks.pairs, pairWords
	if ks.pairs == pairLines {
		words = (words + 15) &^ 15
	}
	a.k, b.k = k, k
	return a, b, words
}

// packPairs is pack for words: p0 and k count words. What lies past the end of
// the matrix is packed as zeros.
func packPairs(dst []float32, s source[float32], l0, count, p0, k, width int) {
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&dst[0])), len(dst))
	whole := max(0, min(k, s.k/2-p0)) // words that lie in the matrix
	for q := 0; q*width < count; q++ {
		h := min(width, count-q*width)
		l := l0 + q*width
		if s.pairs == pairLines {
			packLines(words[q*width*k:][:width*k], s, l, h, p0, k, whole, width)
			continue
		}
		d := words[q*width*k:]
		done := packPairsFast(dst[q*width*k:], s, l, h, p0, whole, width)
		for p := done; p < k; p++ {
			for i := range h {
				d[p*width+i] = s.word(l+i, p0+p)
			}
		}
	}
}

// word is the pair at word p of line l, zeros past the end.
func (s *source[T]) word(l, p int) uint32 {
	o := l*s.row + 2*p*s.col
	switch {
	case 2*p+1 < s.k:
		return uint32(s.bits[o]) | uint32(s.bits[o+s.col])<<16
	case 2*p < s.k:
		return uint32(s.bits[o])
	}
	return 0
}

// packLines packs one panel for AMX: blocks of 16 words of each line.
func packLines(d []uint32, s source[float32], l0, h, p0, k, whole, width int) {
	for p := 0; p < k; p += 16 {
		block := d[p*width:][:16*width]
		if p+16 <= whole && packLinesFast(block, s, l0, h, p0+p) {
			continue
		}
		for i := range h {
			for j := range 16 {
				block[16*i+j] = s.word(l0+i, p0+p+j)
			}
		}
	}
}
