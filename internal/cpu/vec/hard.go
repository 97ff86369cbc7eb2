package vec

// Activations made of straight lines, composed of vector functions a block at a
// time, so that what lies between two of them stays in the cache. dst may be a.

const hardBlock = 512

// Relu6F32 stores a, at least 0 and at most 6; NaN stays NaN.
func Relu6F32(dst, a []float32) { ClampF32(dst, a, 0, 6) }

// Relu6F64 is Relu6F32 for float64.
func Relu6F64(dst, a []float64) { ClampF64(dst, a, 0, 6) }

// HardSigmoidF32 stores a/6 + ½, at least 0 and at most 1; NaN stays NaN.
func HardSigmoidF32(dst, a []float32) {
	for lo := 0; lo < len(dst); lo += hardBlock {
		d, x := dst[lo:min(lo+hardBlock, len(dst))], a[lo:min(lo+hardBlock, len(dst))]
		AddSF32(d, x, 3)
		ClampF32(d, d, 0, 6)
		MulSF32(d, d, 1./6)
	}
}

// HardSigmoidF64 is HardSigmoidF32 for float64.
func HardSigmoidF64(dst, a []float64) {
	for lo := 0; lo < len(dst); lo += hardBlock {
		d, x := dst[lo:min(lo+hardBlock, len(dst))], a[lo:min(lo+hardBlock, len(dst))]
		AddSF64(d, x, 3)
		ClampF64(d, d, 0, 6)
		MulSF64(d, d, 1./6)
	}
}

// HardSwishF32 stores a times what HardSigmoidF32 stores.
func HardSwishF32(dst, a []float32) {
	var room [hardBlock]float32
	for lo := 0; lo < len(dst); lo += hardBlock {
		d, x := dst[lo:min(lo+hardBlock, len(dst))], a[lo:min(lo+hardBlock, len(dst))]
		s := room[:len(d)]
		HardSigmoidF32(s, x)
		MulF32(d, x, s)
	}
}

// HardSwishF64 is HardSwishF32 for float64.
func HardSwishF64(dst, a []float64) {
	var room [hardBlock]float64
	for lo := 0; lo < len(dst); lo += hardBlock {
		d, x := dst[lo:min(lo+hardBlock, len(dst))], a[lo:min(lo+hardBlock, len(dst))]
		s := room[:len(d)]
		HardSigmoidF64(s, x)
		MulF64(d, x, s)
	}
}
