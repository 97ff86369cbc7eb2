package disk

import "math"

// MaxUnpacked returns how many bytes the content of a compressed file may take,
// all of it together, unless the user allows more. Real weights and images do
// not shrink to a hundredth; files that are made to fill the memory shrink to a
// thousandth.
func MaxUnpacked(packed int64) int64 {
	const small, ratio = 256 << 20, 100
	if packed > math.MaxInt64/ratio {
		return math.MaxInt64
	}
	return max(small, ratio*packed)
}
