package locus

import "github.com/locusml/locus/internal/cuda"

// AllowTF32 lets matrix products and convolutions of float32 on NVIDIA GPUs round
// their operands to 10 bits of mantissa, which is several times faster, and returns the
// previous setting. It is off unless a program turns it on: float32 means float32.
func AllowTF32(on bool) (old bool) {
	old = cuda.TF32()
	cuda.SetTF32(on)
	return old
}

// AllowNondeterminism lets ops on NVIDIA GPUs use algorithms whose results may differ in
// their last bits from one call to the next, where they are faster, and returns the previous
// setting: cuDNN's gradients of convolutions and of attention that add up in no fixed order,
// and sums at indices ([Tensor.ScatterAdd], [Tensor.IndexAdd] of short rows) by atomic
// additions instead of a sort. It is off unless a program turns it on: the same program on
// the same GPU computes the same bits, in every process. Compiled functions have a program
// for each setting.
func AllowNondeterminism(on bool) (old bool) {
	old = cuda.Varying()
	cuda.SetVarying(on)
	return old
}
