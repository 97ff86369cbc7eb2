package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// The composition of recurrent networks, and their gradient.
func init() {
	compositions[op.Recurrent] = composeRecurrent
	gradients[op.Recurrent] = recurrentGradient
	compositionsAll[op.RecurrentGrad] = func(attrs op.Attrs, in []*Tensor) []*Tensor {
		a := attrs.(op.Recurrence)
		_, _, _, _, _, n := a.At()
		forward := op.Recurrence{Cell: a.Cell, Bias: a.Bias, Reverse: a.Reverse}
		grads := (&node{inputs: in[1 : 1+n]}).again(in[0], func(in []*Tensor) *Tensor { return composeRecurrent(forward, in) })
		var all []*Tensor
		for _, i := range recurrentWanted(a) {
			all = append(all, grads[i])
		}
		return all
	}
}

// recurrentWanted lists the operands whose gradients RecurrentGrad computes, in order.
func recurrentWanted(a op.Recurrence) []int {
	cell, w, u, biasW, biasU, _ := a.At()
	wanted := []int{u, w}
	if a.Bias {
		wanted = append(wanted, biasW, biasU)
	}
	if a.GradX {
		wanted = append(wanted, 0)
	}
	if a.GradState {
		if wanted = append(wanted, 1); cell >= 0 {
			wanted = append(wanted, cell)
		}
	}
	return wanted
}

// recurrentGradient is the rule: one op computes all gradients. Where these have
// gradients, they are those of the composition.
func recurrentGradient(n *node, g *Tensor) []*Tensor {
	grads := make([]*Tensor, len(n.inputs))
	if n.out.Len() == 0 { // nothing was computed, and nothing saved
		for i, t := range n.inputs {
			grads[i] = t.ZerosLike()
		}
		return grads
	}
	if g.node != nil || slices.ContainsFunc(n.inputs, func(t *Tensor) bool { return t.node != nil }) {
		return throughComposition(n, g)
	}
	a := n.attrs.(op.Recurrence)
	a.GradX, a.GradState = n.needs(0), n.needs(1) || a.Cell == op.LSTMCell && n.needs(2)
	in := append(append([]*Tensor{g}, n.inputs...), n.out)
	all := applyAll(op.RecurrentGrad, a, append(in, n.saved...)...)
	for k, i := range recurrentWanted(a) {
		grads[i] = all[k]
	}
	return grads
}

// composeRecurrent computes step by step. Half-precision types are computed in float32: a
// rounding at each step would add up.
func composeRecurrent(attrs op.Attrs, in []*Tensor) *Tensor {
	a := attrs.(op.Recurrence)
	if t := in[0].dtype; t != Float32 && t != Float64 {
		wide := make([]*Tensor, len(in))
		for i, x := range in {
			wide[i] = x.Cast(Float32)
		}
		return apply(op.Recurrent, a, wide...).Cast(t)
	}
	cell, w, u, biasW, biasU, _ := a.At()
	x, h := in[0], in[1]
	var c, bw, bu *Tensor
	if cell >= 0 {
		c = in[cell]
	}
	if a.Bias {
		bw, bu = in[biasW], in[biasU]
	}
	steps, size := x.shape[0], h.shape[1]
	fromInput := Linear(x, in[w], bw)
	states := make([]*Tensor, steps)
	for i := range steps {
		t := i
		if a.Reverse {
			t = steps - 1 - i
		}
		p, s := fromInput.Index(t), Linear(h, in[u], bu)
		part := func(z *Tensor, k int) *Tensor { return z.Narrow(1, k*size, (k+1)*size) }
		switch a.Cell {
		case op.TanhCell:
			h = p.Add(s).Tanh()
		case op.ReluCell:
			h = p.Add(s).Relu()
		case op.LSTMCell:
			z := p.Add(s)
			c = part(z, 1).Sigmoid().Mul(c).Add(part(z, 0).Sigmoid().Mul(part(z, 2).Tanh()))
			h = part(z, 3).Sigmoid().Mul(c.Tanh())
		case op.GRUCell:
			reset, update := part(p, 0).Add(part(s, 0)).Sigmoid(), part(p, 1).Add(part(s, 1)).Sigmoid()
			fresh := part(p, 2).Add(reset.Mul(part(s, 2))).Tanh()
			h = fresh.Add(update.Mul(h.Sub(fresh)))
		}
		states[t] = h
	}
	if c != nil {
		states = append(states, c)
	}
	return Stack(0, states...)
}
