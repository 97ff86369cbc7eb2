package locus

import "github.com/locusml/locus/internal/cuda"

// AllowTF32 lets matrix products and convolutions of float32 on NVIDIA GPUs round
// their operands to 10 bits of mantissa, which is several times faster, and
// returns the setting before. It is off unless a program turns it on: float32
// means float32.
func AllowTF32(on bool) (old bool) {
	old = cuda.TF32()
	cuda.SetTF32(on)
	return old
}
