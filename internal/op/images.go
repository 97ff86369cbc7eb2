package op

// Images reports whether the op computes with images (N, C, H, W), and is the same whether
// their channels come first or last in memory. Devices may have kernels of such ops for
// both: see Arranger of package backend.
func (d *Def) Images() bool {
	switch d.ID {
	case Conv2D, ConvAct, ConvGradInput, ConvGradWeight, MaxPoolIndices, MaxPool, MaxPoolGrad, AvgPool, AvgPoolGrad, BatchNorm, BatchNormGrad:
		return true
	}
	return false
}
