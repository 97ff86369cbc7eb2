package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Gradient rules of views, reductions, products and indexing.
func init() {
	gradients[op.Reshape] = unaryRule(func(g, x, _ *Tensor) *Tensor { return g.reshape(x.shape) })
	gradients[op.Expand] = unaryRule(func(g, x, _ *Tensor) *Tensor { return sumTo(g, x.shape) })
	gradients[op.Permutation] = func(n *node, g *Tensor) []*Tensor {
		p := n.attrs.(op.Permute).Perm
		back := make([]int, p.N)
		for i := range back {
			back[p.D[i]] = i
		}
		return []*Tensor{g.Permute(back...)}
	}
	gradients[op.Sliced] = func(n *node, g *Tensor) []*Tensor {
		a, x := n.attrs.(op.Slice), n.inputs[0]
		return []*Tensor{unslice(g, x.shape, a)}
	}
	gradients[op.DiagonalView] = func(n *node, g *Tensor) []*Tensor {
		return []*Tensor{undiagonal(g, n.inputs[0].shape, n.attrs.(op.Diagonal))}
	}

	gradients[op.Sum] = unaryRule(func(g, x, _ *Tensor) *Tensor { return g.expand(x.shape) })
	gradients[op.LogSumExp] = unaryRule(func(g, x, y *Tensor) *Tensor { return g.Mul(x.Sub(y).Exp()) })
	gradients[op.Norm] = unaryRule(func(g, x, y *Tensor) *Tensor {
		return x.Mul(g.Div(y.Eq(0).Where(1, y))) // 0 at zero, where there is none
	})
	// Ties share the gradient.
	gradients[op.Max] = unaryRule(shareOfExtreme)
	gradients[op.Min] = unaryRule(shareOfExtreme)
	gradients[op.Prod] = func(n *node, g *Tensor) []*Tensor {
		return []*Tensor{prodGrad(n.inputs[0], g, n.attrs.(op.Reduce).Axes)}
	}

	gradients[op.MatMul] = func(n *node, g *Tensor) []*Tensor {
		a, b := n.inputs[0], n.inputs[1]
		grads := make([]*Tensor, 2)
		if n.needs(0) {
			grads[0] = productLike(a, g, b.T())
		}
		if n.needs(1) {
			grads[1] = productLike(b, a.T(), g)
		}
		return grads
	}

	gradients[op.Gather] = func(n *node, g *Tensor) []*Tensor {
		return []*Tensor{g.zerosView(n.inputs[0].shape).ScatterAdd(n.attrs.(op.Axis).Axis, n.inputs[1], g), nil}
	}
	gradients[op.Take] = func(n *node, g *Tensor) []*Tensor {
		return []*Tensor{g.zerosView(n.inputs[0].shape).IndexAdd(n.attrs.(op.Axis).Axis, n.inputs[1], g), nil}
	}
	gradients[op.ScatterAdd] = func(n *node, g *Tensor) []*Tensor {
		grads := []*Tensor{g, nil, nil}
		if n.needs(2) {
			grads[2] = g.Gather(n.attrs.(op.Axis).Axis, n.inputs[1])
		}
		return grads
	}
	gradients[op.Scatter] = func(n *node, g *Tensor) []*Tensor {
		a, index := n.attrs.(op.Axis), n.inputs[1]
		grads := make([]*Tensor, 3)
		if n.needs(0) {
			grads[0] = g.Scatter(a.Axis, index, 0)
		}
		if n.needs(2) { // to those elements that stayed
			along := ones(len(index.shape))
			along[a.Axis] = index.shape[a.Axis]
			own := g.arange(index.shape[a.Axis]).reshape(along).expand(index.shape)
			last := apply(op.Scatter, a, own.zerosView(n.inputs[0].shape), index, own)
			stayed := apply(op.Gather, a, last, index).Eq(own)
			grads[2] = stayed.Where(apply(op.Gather, a, g, index), 0)
		}
		return grads
	}
	gradients[op.IndexAdd] = func(n *node, g *Tensor) []*Tensor {
		grads := []*Tensor{g, nil, nil}
		if n.needs(2) {
			grads[2] = g.Take(n.attrs.(op.Axis).Axis, n.inputs[1])
		}
		return grads
	}
	gradients[op.Concat] = func(n *node, g *Tensor) []*Tensor {
		axis := n.attrs.(op.Axis).Axis
		grads := make([]*Tensor, len(n.inputs))
		at := 0
		for i, x := range n.inputs {
			size := x.shape[axis]
			if n.needs(i) {
				grads[i] = g.Narrow(axis, at, at+size)
			}
			at += size
		}
		return grads
	}
	gradients[op.Padded] = func(n *node, g *Tensor) []*Tensor {
		p, x := n.attrs.(op.Pad), n.inputs[0]
		step := make([]int, len(x.shape))
		for i := range step {
			step[i] = p.Interior.D[i] + 1
		}
		return []*Tensor{g.slice(p.Low.Slice(), slices.Clone(x.shape), step)}
	}
	gradients[op.CumSum] = func(n *node, g *Tensor) []*Tensor {
		a := n.attrs.(op.Axis)
		a.Reverse = !a.Reverse
		return []*Tensor{apply(op.CumSum, a, g)}
	}
}

// productLike returns the product of a and b, laid out in memory as like is: the
// gradient of a transposed view (a layer's weight) then comes out in the order of
// the tensor behind it, and nothing has to be turned round later.
func productLike(like, a, b *Tensor) *Tensor {
	r := len(like.shape)
	if like.strides[r-2] == 1 && like.strides[r-1] > 1 {
		return apply(op.MatMul, nil, b.T(), a.T()).T()
	}
	return apply(op.MatMul, nil, a, b)
}

// unslice puts the elements of a slice back in place among zeros.
func unslice(g *Tensor, shape []int, a op.Slice) *Tensor {
	r := len(shape)
	p := op.Pad{Low: op.Dims{N: r}, High: op.Dims{N: r}, Interior: op.Dims{N: r}}
	var flip []int
	for i, n := range shape {
		start, length, step := a.Start.D[i], a.Len.D[i], a.Step.D[i]
		if length == 0 {
			p.High.D[i] = n
			continue
		}
		last := start + (length-1)*step
		if step < 0 {
			flip = append(flip, i)
			start, last, step = last, start, -step
		}
		p.Low.D[i], p.Interior.D[i], p.High.D[i] = start, step-1, n-1-last
	}
	if len(flip) > 0 {
		g = g.Flip(flip...)
	}
	return apply(op.Padded, p, g)
}

// undiagonal puts a diagonal back in place among zeros.
func undiagonal(g *Tensor, shape []int, d op.Diagonal) *Tensor {
	rest := len(shape) - 2
	rows, cols := shape[d.A], shape[d.B]
	dev := g.place.device
	// Positions in the flattened matrix, one per element of the diagonal.
	k := g.shape[rest]
	first := max(-d.Offset, 0)*cols + max(d.Offset, 0)
	index := dev.Arange(float64(k)).Mul(cols + 1).Add(first)
	flat := append(slices.Clone(g.shape[:rest]), rows*cols)
	out := g.zerosView(flat).IndexAdd(rest, index, g).Reshape(append(slices.Clone(g.shape[:rest]), rows, cols)...)
	perm := make([]int, 0, len(shape))
	next := 0
	for i := range shape {
		switch i {
		case d.A:
			perm = append(perm, rest)
		case d.B:
			perm = append(perm, rest+1)
		default:
			perm = append(perm, next)
			next++
		}
	}
	return out.Permute(perm...).owned()
}

func shareOfExtreme(g, x, y *Tensor) *Tensor {
	hit := x.Eq(y).Cast(x.dtype)
	var axes []int
	for i := range x.shape {
		if y.shape[i] == 1 && x.shape[i] != 1 {
			axes = append(axes, i)
		}
	}
	if len(axes) == 0 {
		return g.Mul(hit)
	}
	return hit.Mul(g.Div(hit.SumKeep(axes...)))
}

// prodGrad returns, for each element, the product of the others: exact with
// zeros too, by products from the left and from the right.
func prodGrad(x, g *Tensor, axes op.AxisSet) *Tensor {
	// Bring the reduced axes to the end as one.
	var perm, kept []int
	for i, n := range x.shape {
		if !axes.Has(i) {
			perm, kept = append(perm, i), append(kept, n)
		}
	}
	for _, i := range axes.List() {
		if i < len(x.shape) {
			perm = append(perm, i)
		}
	}
	if len(perm) == 0 {
		return g
	}
	moved := x.Permute(perm...)
	n := op.Elements(moved.shape[len(kept):])
	flat := moved.Reshape(append(slices.Clone(kept), n)...)
	last := len(kept)
	left := exclusiveProducts(flat, last)
	right := exclusiveProducts(flat.Flip(last), last).Flip(last)
	others := left.Mul(right).Reshape(moved.shape...)
	back := make([]int, len(perm))
	for i, p := range perm {
		back[p] = i
	}
	return others.Permute(back...).Mul(g)
}

// exclusiveProducts returns for each position the product of those before it, by
// doubling: log n multiplications.
func exclusiveProducts(x *Tensor, axis int) *Tensor {
	n := x.shape[axis]
	shift := func(t *Tensor, by int) *Tensor {
		pad := make([]int, 2*(axis+1))
		pad[2*axis] = by
		return t.Narrow(axis, 0, n-by).Pad(1, pad...)
	}
	if n == 0 {
		return x
	}
	p := shift(x, 1)
	for by := 1; by < n; by *= 2 {
		p = p.Mul(shift(p, by))
	}
	return p
}
