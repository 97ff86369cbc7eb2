package locus

import (
	"slices"

	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Results that only the layers of package nn have seen need not stay until a scope closes
// or the collector comes: no one else can ask for them. PyTorch counts handles; in Go only
// the one who made a tensor can know that there are no others.

func init() {
	lend.Spend = func(x, by any) { x.(*Tensor).lose(by.(*Tensor), true) }
	lend.Lose = func(x, by any) { x.(*Tensor).lose(by.(*Tensor), false) }
	lend.AddNorm = func(x, d any, shape []int, weight, bias any, eps float64) (sum, y any) {
		return addNorm(x.(*Tensor), d.(*Tensor), shape, weight.(*Tensor), bias.(*Tensor), eps)
	}
	lend.Drop = func(tensors []any) {
		var blocks []*memory.Block
		for _, t := range tensors {
			if t := t.(*Tensor); t.block != nil && t.place.of == nil {
				blocks = append(blocks, t.block)
			}
		}
		memory.Drop(blocks)
	}
}

// outUnread are ops whose gradient does not read their result, and inUnread those whose
// gradient reads no operand, but for shapes.
var (
	outUnread = []op.ID{op.Add, op.Sub, op.Mul, op.BatchNorm, op.Normalized, op.Conv2D, op.ConvGradInput, op.MatMul, op.Concat, op.AvgPool, op.MaxPool,
		op.Gelu, op.GeluTanh, op.Silu, op.HardSigmoid, op.HardSwish, op.Mish, op.CastTo}
	inUnread = []op.ID{op.Add, op.Sub, op.Relu, op.Relu6, op.Sigmoid, op.Tanh}
)

// lose drops the last handle of x, from which by was computed. Where no gradient
// will read x it is freed now, else when a gradient has passed its op. last says that
// only the op that made by reads x.
func (x *Tensor) lose(by *Tensor, last bool) {
	if !x.owner || x.block == by.block || x.place.of != nil || by.place.of != nil || x.lane != nil {
		return // a view, or in a trace or a Vmap, where nothing is to be freed
	}
	switch n := x.node; {
	case n == nil && by.node == nil:
		x.block.Free()
	case last && by.node.inUnread(x) && (n == nil || n.outUnread()):
		x.block.Free()
	case n != nil && n.leaf == nil:
		n.lost = true
	}
}

// inUnread reports whether x is an operand of n's op, whose gradient does not read it.
func (n *node) inUnread(x *Tensor) bool {
	if n == nil || n.def == nil {
		return false
	}
	if e, ok := n.attrs.(op.NormEpilogue); ok { // it does not read what was added
		return e.Add && slices.Index(n.inputs, x) == len(n.inputs)-1
	}
	return slices.Contains(inUnread, n.def.ID) && slices.Contains(n.inputs, x)
}

// outUnread reports whether the gradient of n's op does not read its result.
func (n *node) outUnread() bool {
	if n.def == nil || n.leaf != nil {
		return false
	}
	switch a := n.attrs.(type) {
	case op.Epilogue:
		return a.Act == op.Invalid
	case op.ConvEpilogue:
		return a.Act == op.Invalid
	case op.NormEpilogue:
		return a.Act == op.Invalid || !a.Add // see endedGradient
	}
	return slices.Contains(outUnread, n.def.ID)
}
