package locus

import (
	"slices"

	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
)

// A bias and the activation behind it in one launch, and so are their gradients: see joined.go.

// convAct is op.ConvAct. Where the device computes a convolution alone, bias and activation
// are one launch, over the convolution's result, and recorded as that op all the same: its
// gradient needs less than those of the three.
func convAct(a op.ConvEpilogue, operands []*Tensor) *Tensor {
	p := operands[0].place
	if len(operands) != 3 || p.backend.Supports(op.ConvAct, operands[0].dtype) || !joins(op.BiasActivate, operands[2]) ||
		slices.ContainsFunc(operands, func(t *Tensor) bool { return t.lane != nil || t.place != p }) {
		return apply(op.ConvAct, a, operands...)
	}
	if spec, err := op.Check(op.ConvAct, a, specs(operands)); err != nil || op.Elements(spec.Shape) == 0 {
		return apply(op.ConvAct, a, operands...) // which says what is wrong
	}
	y := apply(op.Conv2D, a.Conv, operands[:2]...)
	conv := y.node
	y.node = nil
	if s := scopeOf(operands); s != nil && s != y.scope.Load() { // the bias's
		s.adopt(y)
	}
	runJoined(op.BiasActivate, op.Epilogue{Act: a.Act}, []*Tensor{y, operands[2]}, y, y.spec())
	if tracked(operands) {
		y.node = &node{def: op.Get(op.ConvAct), attrs: a, inputs: slices.Clone(operands), out: y}
		if conv != nil {
			y.node.filter = conv.filter
		}
	}
	return y
}

// activationGrads are the gradients of the activations that come with the sums of their
// channels.
var activationGrads = map[op.ID]op.ID{op.Relu: op.ReluGrad, op.Relu6: op.Relu6Grad, op.Sigmoid: op.SigmoidGrad, op.Tanh: op.TanhGrad,
	op.Gelu: op.GeluGrad, op.GeluTanh: op.GeluTanhGrad, op.Silu: op.SiluGrad}

// biasAxes returns the axes over which the gradient of n's result is summed to make that of
// its bias; none if n is no op with a bias.
func biasAxes(n *node) op.AxisSet {
	if n == nil || n.def == nil || len(n.inputs) != 3 {
		return 0
	}
	switch n.def.ID {
	case op.Linear:
		return 1<<(len(n.out.shape)-1) - 1
	case op.ConvAct:
		return op.AxesOf(0, 2, 3)
	}
	return 0
}

// gradWithSums returns the gradient of an activation and the sums of that over axes, in one
// launch: grad is one of op.ActivationGrads, g the gradient of the activation's result, and y
// what grad needs besides. Both are nil where the device has no such op, or where somebody
// records or traces.
func gradWithSums(grad op.ID, g, y *Tensor, axes op.AxisSet) (d, sums *Tensor) {
	in := []*Tensor{g, y}
	if axes == 0 || !op.SumsGrad(grad) || g.dtype != y.dtype || g.place != y.place || !sameShape(g.shape, y.shape) || tracked(in) {
		return nil, nil
	}
	var over, turned *Tensor
	if !joins(op.ActivationGradSum, in...) {
		if !joinsAnyhow(op.ActivationGradSum, in...) || !layout.IsImage(g.shape) || g.shape[2] == 1 {
			return nil, nil
		}
		// If one lies channels last the other is turned, as single ops do: see place.arrange.
		a, b := g.view(), y.view()
		switch lastA, lastB := a.ChannelsLast(), b.ChannelsLast(); {
		case lastA && lastB:
		case !g.place.arranges():
			return nil, nil
		case lastB && a.Contiguous():
			turned = g.place.channelsLast(op.Get(grad), g, &a, scopeOf(in))
			in[0] = turned
		case lastA && b.Contiguous():
			turned = g.place.channelsLast(op.Get(grad), y, &b, scopeOf(in))
			in[1] = turned
		default:
			return nil, nil
		}
		over = allocate(g.place, op.ActivationGradSum.String(), g.spec(), scopeOf(in), in)
		over.strides = layout.Strides(g.shape)
	}
	var channels []int
	for i, n := range g.shape {
		if !axes.Has(i) {
			channels = append(channels, n)
		}
	}
	made := runJoined(op.ActivationGradSum, op.GradSum{Grad: grad, Axes: axes}, in, over, g.spec(), op.Spec{DType: g.dtype, Shape: channels})
	if turned != nil {
		turned.Free()
	}
	return made[0], made[1]
}

// summed passes the gradient of an activation on to its operand, together with the gradient
// of the bias that was added to make that, which is kept until the gradient of that op is
// computed. It returns nil where the two are not one launch.
func (e *engine) summed(n *node, g *Tensor) []*Tensor {
	if e.create || n.def == nil || len(n.inputs) != 1 {
		return nil
	}
	x, grad := n.inputs[0], activationGrads[n.def.ID]
	m := x.node
	axes := biasAxes(m)
	if grad == op.Invalid || axes == 0 || !m.outUnread() || !e.useful[m] || !e.useful[m.inputs[2].node] || m.spent.Load() || e.ends[m] ||
		e.uses[m] != 1 || e.grads[m] != nil || len(e.pieces[m]) > 0 {
		return nil
	}
	y := x
	if gradientsFromResult[n.def.ID] != nil {
		y = n.out
	}
	d, sums := gradWithSums(grad, g, y.detach(), axes)
	if d == nil {
		return nil
	}
	if e.sums == nil {
		e.sums = map[*node]*Tensor{}
	}
	e.sums[m] = sums
	return []*Tensor{d}
}
