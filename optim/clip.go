package optim

import "github.com/locusml/locus"

// ClipNorm scales gradients down together so that the norm over all of them is
// at most limit, and gives the norm they had. Entries may be nil. Everything stays
// on the gradients' device, and nothing waits.
func ClipNorm(grads []*locus.Tensor, limit float64) (clipped []*locus.Tensor, norm *locus.Tensor) {
	var present []*locus.Tensor
	for _, g := range grads {
		if g != nil {
			present = append(present, g)
		}
	}
	if len(present) == 0 {
		return grads, nil
	}
	scaled, norm := locus.ClipGlobalNorm(present, limit)
	clipped = make([]*locus.Tensor, len(grads))
	for i, g := range grads {
		if g != nil {
			clipped[i], scaled = scaled[0], scaled[1:]
		}
	}
	return clipped, norm
}

// ClipValue moves every element of the gradients into [-limit, limit].
func ClipValue(grads []*locus.Tensor, limit float64) []*locus.Tensor {
	out := make([]*locus.Tensor, len(grads))
	for i, g := range grads {
		if g != nil {
			out[i] = g.Clamp(-limit, limit)
		}
	}
	return out
}
