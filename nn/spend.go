package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
)

// fresh reports whether m is a layer of this package that keeps no handle of its input,
// and of whose result only the caller has one if it is not the input itself. Of a
// program's own layers and functions that is not known.
func fresh(m Module) bool {
	switch l := m.(type) {
	case *BatchNormLayer, *LayerNormLayer, *GroupNormLayer, *RMSNormLayer, *InstanceNormLayer, *ConvLayer, *ConvTransposeLayer, *LinearLayer,
		*DropoutLayer, *ResNetBlockLayer, *EncoderLayer, *Encoder:
		return true
	case funcLayer:
		return !l.foreign
	case *ResidualLayer:
		return l != nil && fresh(l.Body) && (l.Shortcut == nil || fresh(l.Shortcut))
	case *SequentialLayer:
		if l == nil || len(l.Layers) == 0 {
			return false
		}
		for _, m := range l.Layers {
			if !fresh(m) {
				return false
			}
		}
		return true
	}
	return false
}

// spend returns y, and releases xs, which nothing else has a handle of and only the op
// that made y has read.
func spend(y *locus.Tensor, xs ...*locus.Tensor) *locus.Tensor {
	for _, x := range xs {
		lend.Spend(x, y)
	}
	return y
}

// lose is spend for xs that other ops have read too on the way to y.
func lose(y *locus.Tensor, xs ...*locus.Tensor) *locus.Tensor {
	for _, x := range xs {
		lend.Lose(x, y)
	}
	return y
}
