package locus

import "github.com/locusml/locus/internal/op"

// Compositions of the fused ops, and their gradients. An op without a rule of
// its own here gets the gradient of its composition.
func init() {
	conv := func(n *node) op.Conv { return n.attrs.(op.Conv) }
	gradients[op.Conv2D] = func(n *node, g *Tensor) []*Tensor {
		x, w := n.inputs[0], n.inputs[1]
		grads := make([]*Tensor, 2)
		if n.needs(0) {
			grads[0] = convGradInput(conv(n), g, w, x.shape)
		}
		if n.needs(1) {
			grads[1] = convGradWeight(conv(n), g, x, w.shape)
		}
		return grads
	}
	compositions[op.ConvAct] = func(a op.Attrs, in []*Tensor) *Tensor {
		c := a.(op.ConvEpilogue)
		y := apply(op.Conv2D, c.Conv, in[0], in[1])
		if len(in) == 3 {
			y = y.addAndFree(perChannel(in[2], 4))
		}
		if c.Act != op.Invalid {
			y = apply(c.Act, nil, y)
		}
		return y
	}
	gradients[op.ConvAct] = convActGradient
	gradients[op.ConvGradInput] = func(n *node, g *Tensor) []*Tensor {
		// The op maps a gradient a and a weight w to an input's gradient; g is one of those.
		a, w := n.inputs[0], n.inputs[1]
		grads := make([]*Tensor, 2)
		if n.needs(0) {
			grads[0] = apply(op.Conv2D, forwardConv(conv(n)), g, w)
		}
		if n.needs(1) {
			grads[1] = convGradWeight(conv(n), a, g, w.shape)
		}
		return grads
	}
	gradients[op.ConvGradWeight] = func(n *node, g *Tensor) []*Tensor {
		a, x := n.inputs[0], n.inputs[1]
		grads := make([]*Tensor, 2)
		if n.needs(0) {
			grads[0] = apply(op.Conv2D, forwardConv(conv(n)), x, g)
		}
		if n.needs(1) {
			grads[1] = convGradInput(conv(n), a, g, x.shape)
		}
		return grads
	}

	gradients[op.AvgPool] = func(n *node, g *Tensor) []*Tensor {
		p := n.attrs.(op.Pool)
		p.Size = [2]int{n.inputs[0].shape[2], n.inputs[0].shape[3]}
		return []*Tensor{apply(op.AvgPoolGrad, p, g)}
	}
	gradients[op.AvgPoolGrad] = func(n *node, g *Tensor) []*Tensor {
		p := n.attrs.(op.Pool)
		p.Size = [2]int{}
		return []*Tensor{apply(op.AvgPool, p, g)}
	}
	gradients[op.MaxPool] = func(n *node, g *Tensor) []*Tensor {
		return []*Tensor{apply(op.MaxPoolGrad, n.attrs, g, n.inputs[0].detach())}
	}
	gradients[op.MaxPoolGrad] = func(n *node, g *Tensor) []*Tensor {
		x := n.inputs[1].detach()
		return []*Tensor{poolGather(g, apply(op.MaxPoolIndices, n.attrs, x)), nil}
	}
	compositions[op.MaxPool] = func(a op.Attrs, in []*Tensor) *Tensor {
		return poolGather(in[0], apply(op.MaxPoolIndices, a, in[0].detach()))
	}
	compositions[op.MaxPoolGrad] = func(a op.Attrs, in []*Tensor) *Tensor {
		g, x := in[0], in[1]
		index := apply(op.MaxPoolIndices, a, x.detach())
		flat := g.fullOf(0, []int{x.shape[0], x.shape[1], x.shape[2] * x.shape[3]})
		plane := []int{g.shape[0], g.shape[1], g.shape[2] * g.shape[3]}
		return flat.ScatterAdd(2, index.reshape(plane), g.reshape(plane)).reshape(x.shape)
	}

	axisOf := func(a op.Attrs) int { return a.(op.Axis).Axis }
	compositions[op.Softmax] = func(a op.Attrs, in []*Tensor) *Tensor {
		e := in[0].Sub(in[0].detach().MaxKeep(axisOf(a))).Exp()
		return e.Div(e.SumKeep(axisOf(a)))
	}
	gradients[op.Softmax] = func(n *node, g *Tensor) []*Tensor {
		return []*Tensor{apply(op.SoftmaxGrad, n.attrs, g, n.out)}
	}
	compositions[op.SoftmaxGrad] = func(a op.Attrs, in []*Tensor) *Tensor {
		return in[1].Mul(in[0].Sub(in[0].Mul(in[1]).SumKeep(axisOf(a))))
	}
	compositions[op.LogSoftmax] = func(a op.Attrs, in []*Tensor) *Tensor {
		return in[0].Sub(in[0].LogSumExpKeep(axisOf(a)))
	}
	gradients[op.LogSoftmax] = func(n *node, g *Tensor) []*Tensor {
		return []*Tensor{apply(op.LogSoftmaxGrad, n.attrs, g, n.out)}
	}
	compositions[op.LogSoftmaxGrad] = func(a op.Attrs, in []*Tensor) *Tensor {
		return in[0].Sub(in[1].Exp().Mul(in[0].SumKeep(axisOf(a))))
	}

	compositions[op.Attend] = func(a op.Attrs, in []*Tensor) *Tensor {
		y := attentionWeights(a.(op.Attention), in).MatMul(in[2])
		if a.(op.Attention).Rows {
			return y.Transpose(-3, -2).Copy()
		}
		return y
	}

	gradients[op.Attend] = attentionGrad
	compositions[op.AttendGrad] = func(a op.Attrs, in []*Tensor) *Tensor {
		p := a.(op.Attention)
		g, q, k, v, y := in[0], in[1], in[2], in[3], in[4]
		w := attentionWeights(p, append([]*Tensor{q, k, v}, in[6:]...)) // computed again: in[5] has no history
		t := w.Mul(g.MatMul(v.T()).Sub(g.Mul(y).SumKeep(-1))).Mul(p.Scale)
		if p.Rows {
			return Stack(-3, t.MatMul(k).Transpose(-3, -2), t.T().MatMul(q).Transpose(-3, -2), w.T().MatMul(g).Transpose(-3, -2))
		}
		return Concat(0, t.MatMul(k).Flatten(), t.T().MatMul(q).Flatten(), w.T().MatMul(g).Flatten())
	}

	// The rest differentiate their compositions.
	for _, id := range []op.ID{op.SoftmaxGrad, op.LogSoftmaxGrad, op.AttendGrad} {
		gradients[id] = throughComposition
	}
}

// convActGradient needs of the result only what the activation's gradient does.
func convActGradient(n *node, g *Tensor) []*Tensor {
	given, c, hasBias := g, n.attrs.(op.ConvEpilogue), len(n.inputs) == 3 && n.needs(2)
	g, sums, ok := throughActivation(n, c.Act, g, hasBias)
	if !ok {
		return throughComposition(n, g)
	}
	x, w := n.inputs[0], n.inputs[1]
	grads := make([]*Tensor, len(n.inputs))
	if n.needs(0) {
		grads[0] = convGradInput(c.Conv, g, w, x.shape)
	}
	if n.needs(1) {
		grads[1] = convGradWeight(c.Conv, g, x, w.shape)
	}
	if hasBias {
		if sums == nil {
			sums = g.Sum(0, 2, 3)
		}
		grads[2] = sums
	}
	if g != given {
		g.freeUnlessRecorded(grads)
	}
	return grads
}

// throughComposition computes an op again by its composition and passes the
// gradient through that: only the operands are saved.
func throughComposition(n *node, g *Tensor) []*Tensor {
	return n.again(g, func(in []*Tensor) *Tensor { return compositions[n.def.ID](n.attrs, in) })
}

// attentionGrad is attention's rule: one op computes the gradients of q, k and v in
// one piece. That of a mask has the size of the scores anyway.
func attentionGrad(n *node, g *Tensor) []*Tensor {
	if len(n.inputs) == 4 && n.inputs[3].dtype.IsFloat() && n.needs(3) {
		return throughComposition(n, g)
	}
	grads := make([]*Tensor, len(n.inputs))
	if n.out.Len() == 0 { // nothing was computed, and nothing saved
		for i, t := range n.inputs[:3] {
			grads[i] = t.ZerosLike()
		}
		return grads
	}
	a, y := n.attrs.(op.Attention), n.out
	if a.Rows {
		g, y = g.Transpose(-3, -2), y.Transpose(-3, -2)
	}
	q, k, v := n.inputs[0], n.inputs[1], n.inputs[2]
	a.Rows = g.lane == nil && packed(q, k, v) // the gradients then lie as q, k and v do
	flat := apply(op.AttendGrad, a, append([]*Tensor{g, q, k, v, y, n.saved[0]}, n.inputs[3:]...)...)
	if a.Rows {
		for i := range 3 {
			grads[i] = flat.Narrow(-3, i, i+1).Squeeze(-3).Transpose(-3, -2)
		}
		return grads
	}
	at := 0
	for i, t := range n.inputs[:3] {
		grads[i] = flat.Narrow(0, at, at+t.Len()).reshape(t.shape)
		at += t.Len()
	}
	return grads
}

// forwardConv is the attribute of the convolution that a gradient op belongs to.
func forwardConv(c op.Conv) op.Conv {
	c.Size = [2]int{}
	return c
}

func convGradInput(c op.Conv, g, w *Tensor, x []int) *Tensor {
	c.Size = [2]int{x[2], x[3]}
	return apply(op.ConvGradInput, c, g, w)
}

func convGradWeight(c op.Conv, g, x *Tensor, w []int) *Tensor {
	c.Size = [2]int{w[2], w[3]}
	return apply(op.ConvGradWeight, c, g, x)
}

// poolGather picks from each plane of x the elements at the given positions.
func poolGather(x, index *Tensor) *Tensor {
	plane := []int{x.shape[0], x.shape[1], x.shape[2] * x.shape[3]}
	flat := []int{index.shape[0], index.shape[1], index.shape[2] * index.shape[3]}
	return x.reshape(plane).Gather(2, index.reshape(flat)).reshape(index.shape)
}

// causalMask is true where position j of s may be seen from position i of l; the
// last positions of both are aligned to the first: j ≤ i.
func causalMask(d Device, l, s int) *Tensor {
	return d.Arange(float64(s)).Le(d.Arange(float64(l)).Reshape(l, 1))
}
