package locus

import "github.com/locusml/locus/internal/op"

func init() {
	compositions[op.Linear] = func(a op.Attrs, in []*Tensor) *Tensor {
		x, w := in[0], in[1]
		// One product of two matrices, whatever the leading axes: a batch of products
		// would repeat the weight.
		y := rows(x).MatMul(w.T())
		if len(in) == 3 {
			y = y.addAndFree(in[2])
		}
		if act := a.(op.Epilogue).Act; act != op.Invalid {
			y = apply(act, nil, y)
		}
		return y.reshape(withLast(x.shape, w.shape[0]))
	}
	gradients[op.Linear] = linearGradient
}

// linearGradient needs of the result only what the activation's gradient does.
func linearGradient(n *node, g *Tensor) []*Tensor {
	given, hasBias := g, len(n.inputs) == 3 && n.needs(2)
	g, sums, ok := throughActivation(n, n.attrs.(op.Epilogue).Act, g, hasBias)
	if !ok {
		return throughComposition(n, g)
	}
	x, w := n.inputs[0], n.inputs[1]
	grads := make([]*Tensor, len(n.inputs))
	flat := rows(g)
	if n.needs(0) {
		grads[0] = apply(op.MatMul, nil, flat, w).reshape(x.shape)
	}
	if n.needs(1) {
		grads[1] = productLike(w, flat.T(), rows(x))
	}
	if hasBias {
		if sums == nil {
			sums = flat.Sum(0)
		}
		grads[2] = sums
	}
	if g != given {
		g.freeUnlessRecorded(grads)
	}
	return grads
}

// freeUnlessRecorded frees a gradient on its way through a rule, since a backward
// pass's memory should be low, unless the gradients computed from it have a
// history, which then needs it.
func (t *Tensor) freeUnlessRecorded(grads []*Tensor) {
	for _, g := range grads {
		if g != nil && g.node != nil {
			return
		}
	}
	t.Free()
}

// gradientsFromResult are the gradients of the activations that need no more than
// the result.
var gradientsFromResult map[op.ID]func(g, out *Tensor) *Tensor

func init() {
	gradientsFromResult = map[op.ID]func(g, out *Tensor) *Tensor{
		op.Relu:    func(g, out *Tensor) *Tensor { return apply(op.ReluGrad, nil, g, out.detach()) },
		op.Relu6:   func(g, out *Tensor) *Tensor { return apply(op.Relu6Grad, nil, g, out.detach()) },
		op.Sigmoid: func(g, out *Tensor) *Tensor { return apply(op.SigmoidGrad, nil, g, out) },
		op.Tanh:    func(g, out *Tensor) *Tensor { return apply(op.TanhGrad, nil, g, out) },
	}
}

// throughActivation returns the gradient of what n's activation was applied to and, where
// they are wanted and come with it, the sums of that which are the gradient of n's bias. It
// reports false where that takes more than the result, which the functions of package
// locus do not record as one op.
func throughActivation(n *node, act op.ID, g *Tensor, sums bool) (d, s *Tensor, ok bool) {
	gradient := gradientsFromResult[act]
	if gradient == nil {
		return g, n.sums, act == op.Invalid
	}
	if sums {
		if d, s := gradWithSums(activationGrads[act], g, n.out, biasAxes(n)); d != nil {
			return d, s, true
		}
	}
	return gradient(g, n.out), nil, true
}

// rows returns t as a matrix of the rows of its last axis.
func rows(t *Tensor) *Tensor {
	r := len(t.shape)
	return t.reshape([]int{op.Elements(t.shape[:r-1]), t.shape[r-1]})
}

// withLast returns a shape with another size of the last axis.
func withLast(shape []int, n int) []int {
	s := append([]int{}, shape...)
	s[len(s)-1] = n
	return s
}
