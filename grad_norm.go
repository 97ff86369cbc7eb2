package locus

import "github.com/locusml/locus/internal/op"

// Compositions of the normalizations, and their gradients.
func init() {
	compositions[op.Normalized] = func(a op.Attrs, in []*Tensor) *Tensor {
		y, _, _ := composeNorm(op.Normalized, a.(op.Normalize), in)
		return y
	}
	compositionsAll[op.BatchNorm] = func(a op.Attrs, in []*Tensor) []*Tensor {
		y, mean, square := composeNorm(op.BatchNorm, a.(op.Normalize), in)
		n := in[0].Len() / max(1, in[0].shape[1])
		stat := func(t *Tensor) *Tensor { return t.detach().reshape(in[0].shape[1:2]) }
		square = stat(square)
		mean = stat(mean)
		u := a.(op.Normalize)
		all := []*Tensor{y, mean, square.Add(u.Eps).Rsqrt(), mean.Copy(), square.Mul(float64(n) / float64(n-1))}
		if u.Running {
			for k, old := range in[len(in)-2:] {
				all[3+k] = old.detach().Blend(1-u.Momentum, all[3+k], u.Momentum)
			}
		}
		return all
	}
	gradients[op.Normalized] = func(n *node, g *Tensor) []*Tensor { return normGradient(n, op.NormalizeGrad, g, nil, nil) }
	gradients[op.BatchNorm] = func(n *node, g *Tensor) []*Tensor {
		if e, ok := n.attrs.(op.NormEpilogue); ok {
			return endedGradient(n, e, g)
		}
		return normGradient(n, op.BatchNormGrad, g, nil, nil)
	}
	compositionsAll[op.NormalizeGrad] = func(a op.Attrs, in []*Tensor) []*Tensor {
		return composeNormGrad(op.Normalized, a.(op.Normalize), in)
	}
	compositionsAll[op.BatchNormGrad] = func(a op.Attrs, in []*Tensor) []*Tensor {
		return composeNormGrad(op.BatchNorm, a.(op.Normalize), in)
	}
}

// normGradient is the rule: one op computes the gradients of x, weight and bias.
// Where gradients have gradients, each of them differentiates the composition; they
// are the same numbers as elsewhere. added may be nil; else x's gradient is added to it, in
// the memory of over if that is not nil.
func normGradient(n *node, id op.ID, g, added, over *Tensor) []*Tensor {
	a := n.attrs.(op.Normalize)
	grads := make([]*Tensor, len(n.inputs))
	if n.out.Len() == 0 { // nothing was computed, and nothing saved
		for i, t := range n.inputs {
			grads[i] = t.ZerosLike()
		}
		return grads
	}
	last := len(n.inputs) - 1
	a.GradWeight = a.Weight && n.needs(1)
	a.GradBias = a.Bias && n.needs(last)
	in := []*Tensor{g, n.inputs[0]}
	if a.Weight {
		in = append(in, n.inputs[1])
	}
	stats := n.saved
	if id == op.BatchNormGrad {
		stats = stats[:2] // behind them is what programs get
	}
	values := make([]*Tensor, 0, len(in)+len(stats))
	for _, t := range append(in, stats...) {
		values = append(values, t.detach())
	}
	var all []*Tensor
	if added != nil {
		results := append([]op.Spec{added.spec()}, op.Get(id).More(a, specs(values))...)
		all = runJoined(op.NormalizeGradAdd, a, append(values, added), over, results...)
	} else {
		all = applyAll(id, a, values...)
	}
	if tracked(in) {
		for i, t := range all {
			t.node = &node{inputs: in, out: t, own: &ownRule{name: op.Get(id).Name, back: func(n *node, g *Tensor) []*Tensor {
				return n.again(g, func(in []*Tensor) *Tensor { return compositionsAll[id](a, in)[i] })
			}}}
		}
	}
	grads[0], all = all[0], all[1:]
	if a.GradWeight {
		grads[1], all = all[0], all[1:]
	}
	if a.GradBias {
		grads[last] = all[0]
	}
	return grads
}

// normAxes lists the axes of x that statistics are taken over, and those that
// parameters do not have.
func normAxes(id op.ID, a op.Normalize, x *Tensor) (over, others []int) {
	for i := range x.shape {
		stat, param := i < a.From, i >= a.Params[0] && i < a.Params[1]
		if id == op.BatchNorm {
			stat, param = i == 1, i == 1
		}
		if !stat {
			over = append(over, i)
		}
		if !param {
			others = append(others, i)
		}
	}
	return over, others
}

// normParam lays a weight or bias out so that it broadcasts against x.
func normParam(id op.ID, a op.Normalize, p, x *Tensor) *Tensor {
	shape := a.ParamShape(id, x.shape)
	first := a.Params[0]
	if id == op.BatchNorm {
		first = 1
	}
	for range len(x.shape) - first - len(shape) {
		shape = append(shape, 1)
	}
	return p.wide().reshape(shape)
}

// center returns x less its mean, the mean and the mean square of what is left, all
// wide, and both kept. Without a mean, nothing is subtracted.
func center(a op.Normalize, x *Tensor, over []int) (d, mean, square *Tensor) {
	d = x.wide()
	if !a.RMS {
		mean = d.MeanKeep(over...)
		d = d.Sub(mean)
	}
	return d, mean, d.Square().MeanKeep(over...)
}

func composeNorm(id op.ID, a op.Normalize, in []*Tensor) (y, mean, square *Tensor) {
	x := in[0]
	over, _ := normAxes(id, a, x)
	y, mean, square = center(a, x, over)
	y = y.Mul(square.Add(a.Eps).Rsqrt())
	params := in[1:]
	if a.Weight {
		y, params = y.Mul(normParam(id, a, params[0], x)), params[1:]
	}
	if a.Bias {
		y = y.Add(normParam(id, a, params[0], x))
	}
	return y.Cast(x.dtype), mean, square
}

// composeNormGrad computes the statistics again: those it is given have no history.
func composeNormGrad(id op.ID, a op.Normalize, in []*Tensor) []*Tensor {
	g, x := in[0].wide(), in[1]
	over, others := normAxes(id, a, x)
	hat, _, square := center(a, x, over)
	rstd := square.Add(a.Eps).Rsqrt()
	hat = hat.Mul(rstd)
	h := g
	if a.Weight {
		h = h.Mul(normParam(id, a, in[2], x))
	}
	dx := h.Sub(hat.Mul(h.Mul(hat).MeanKeep(over...)))
	if !a.RMS {
		dx = dx.Sub(h.MeanKeep(over...))
	}
	all := []*Tensor{dx.Mul(rstd).Cast(x.dtype)}
	param := func(t *Tensor) {
		if len(others) > 0 {
			t = t.Sum(others...)
		}
		all = append(all, t.Cast(x.dtype))
	}
	if a.GradWeight {
		param(g.Mul(hat))
	}
	if a.GradBias {
		param(g)
	}
	return all
}
