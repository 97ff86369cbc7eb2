package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// A tensor that is cut into parts, as the packed projections of attention are, gets
// its gradient in parts. Padding each to the whole and adding them up would take twice
// as many passes over memory as there are parts; here they wait until all are there and
// are put side by side.

// piece is the gradient of one part.
type piece struct {
	n           *node // the slice
	g           *Tensor
	axis        int
	start, stop int
}

// keeps reports whether the gradient of n's result, a slice, waits for those of the
// other parts.
func (e *engine) keeps(n *node, g *Tensor) bool {
	if e.create || n.def == nil || n.def.ID != op.Sliced {
		return false
	}
	x := n.inputs[0]
	if x.node == nil || !e.useful[x.node] || e.uses[x.node] < 2 || e.slices[x.node] < e.uses[x.node] {
		return false
	}
	p, ok := partOf(n, g)
	if !ok {
		return false
	}
	if e.pieces == nil {
		e.pieces = map[*node][]piece{}
	}
	e.pieces[x.node] = append(e.pieces[x.node], p)
	return true
}

// partOf reports whether the slice n cuts along one axis, without holes.
func partOf(n *node, g *Tensor) (piece, bool) {
	a, shape := n.attrs.(op.Slice), n.inputs[0].shape
	p := piece{n: n, g: g, axis: -1}
	for i, size := range shape {
		start, length, step := a.Start.D[i], a.Len.D[i], a.Step.D[i]
		switch {
		case step != 1 && length > 1:
			return p, false
		case start == 0 && length == size:
		case p.axis >= 0:
			return p, false
		default:
			p.axis, p.start, p.stop = i, start, start+length
		}
	}
	return p, p.axis >= 0
}

// join makes one gradient of the parts that have come for n's result.
func (e *engine) join(n *node) {
	parts := e.pieces[n]
	if len(parts) == 0 {
		return
	}
	delete(e.pieces, n)
	whole := e.grads[n] == nil && len(parts) == e.uses[n]
	if whole {
		sorted := slices.Clone(parts)
		slices.SortFunc(sorted, func(a, b piece) int { return a.start - b.start })
		shape := sorted[0].n.inputs[0].shape
		at := 0
		grads := make([]*Tensor, len(sorted))
		for i, p := range sorted {
			whole = whole && p.axis == sorted[0].axis && p.start == at
			at, grads[i] = p.stop, p.g
		}
		if whole = whole && at == shape[sorted[0].axis]; whole {
			g := sideBySide(sorted, shape)
			if g == nil {
				g = Concat(sorted[0].axis, grads...)
			}
			g = e.settle(sorted[0].n, []*Tensor{g})[0]
			e.held[g.block]++
			e.add(n, g)
			e.release(g, nil)
		}
	}
	for _, p := range parts {
		if !whole {
			g := e.settle(p.n, []*Tensor{unslice(p.g, p.n.inputs[0].shape, p.n.attrs.(op.Slice))})[0]
			e.held[g.block]++
			e.add(n, g)
			e.release(g, nil)
		}
		e.release(p.g, nil)
	}
}

// sideBySide returns the gradient of which parts are the parts, in order, if they lie in
// one block at equal distances; else nil. A gradient that was computed for all parts at
// once, as attention's is, needs no copy then if they lie as the whole does, and one
// instead of one per part if not.
func sideBySide(parts []piece, shape []int) *Tensor {
	first, axis := parts[0].g, parts[0].axis
	if len(parts) < 2 || first.block == nil || parts[1].start == 0 { // one, or the first is empty
		return nil
	}
	strides := slices.Clone(first.strides)
	for i := range strides { // whatever it is where nothing follows
		if shape[i] == 1 {
			strides[i] = 1
		}
	}
	strides[axis] = (parts[1].g.offset - first.offset) / parts[1].start
	for _, p := range parts {
		g := p.g
		if g.block != first.block || g.lane != nil || g.dtype != first.dtype || g.offset != first.offset+p.start*strides[axis] {
			return nil
		}
		for i, s := range g.strides {
			if g.shape[i] > 1 && s != strides[i] {
				return nil
			}
		}
	}
	whole := first.detach().laid(shape, strides, first.offset)
	if op.IsContiguous(shape, strides) {
		return whole
	}
	return whole.Copy()
}
