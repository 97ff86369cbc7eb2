package locus

import "github.com/locusml/locus/internal/op"

// The loss of classes: its composition and its gradient.
func init() {
	compositions[op.CrossEntropy] = func(_ op.Attrs, in []*Tensor) *Tensor {
		logp := in[0].wide().LogSoftmax(1)
		return logp.Gather(1, in[1].Unsqueeze(1)).Squeeze(1).Neg()
	}
	gradients[op.CrossEntropy] = func(n *node, g *Tensor) []*Tensor {
		x, classes := n.inputs[0], n.inputs[1]
		if n.out.Len() == 0 { // nothing was computed, and nothing saved
			return []*Tensor{x.ZerosLike(), nil}
		}
		return []*Tensor{apply(op.CrossEntropyGrad, nil, x, classes, g, n.saved[0], n.saved[1]), nil}
	}
	compositions[op.CrossEntropyGrad] = func(_ op.Attrs, in []*Tensor) *Tensor {
		x, classes, g := in[0], in[1], in[2] // what was saved has no history
		hot := classes.Unsqueeze(1).Eq(classes.arange(x.shape[1]).Cast(classes.dtype))
		return x.wide().Softmax(1).Sub(hot.Cast(g.dtype)).Mul(g.Unsqueeze(1)).Cast(x.dtype)
	}
	gradients[op.CrossEntropyGrad] = throughComposition
}
