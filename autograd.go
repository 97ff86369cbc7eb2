package locus

import "github.com/locusml/locus/internal/op"

// node records how a tensor was computed, for its gradient.
type node struct {
	def    *op.Def // the primitive, or nil where back says it all
	name   string
	attrs  op.Attrs
	inputs []*Tensor
	out    *Tensor
	back   func(n *node, g *Tensor) []*Tensor
}

// tracked reports whether a result of in must record how it was computed.
func tracked(in []*Tensor) bool {
	for _, t := range in {
		if t.node != nil {
			return true
		}
	}
	return false
}

// Detach gives the same elements without their history: no gradient flows
// through it.
func (t *Tensor) Detach() *Tensor {
	if t.node == nil {
		return t
	}
	v := t.alias()
	v.node = nil
	return v
}
