package locus

import "github.com/locusml/locus/internal/op"

// The gradients of linear algebra, in terms of the factors. See M. Giles, "Collected
// matrix derivative results", 2008, and for QR S. Walter and L. Lehmann, 2012.
func init() {
	gradients[op.Cholesky] = unaryRule(choleskyGradient)
	gradients[op.Solve] = func(n *node, g *Tensor) []*Tensor {
		gb := apply(op.Solve, nil, n.inputs[0].T(), g)
		return n.systemGradients(gb, func(x *Tensor) *Tensor { return x })
	}
	gradients[op.SolveTriangular] = func(n *node, g *Tensor) []*Tensor {
		a := n.attrs.(op.Triangle)
		gb := triangular(n.inputs[0].T(), g, !a.Upper, a.Unit)
		return n.systemGradients(gb, func(x *Tensor) *Tensor {
			offset := 0
			if a.Unit {
				offset = 1
			}
			if a.Upper {
				return x.Triu(offset)
			}
			return x.Tril(-offset)
		})
	}
	gradients[op.Det] = unaryRule(func(g, x, _ *Tensor) *Tensor {
		return asMatrices(g).Mul(apply(op.Cofactor, nil, x))
	})
	gradients[op.Cofactor] = unaryRule(cofactorGradient)
	gradients[op.SlogDet] = unaryRule(func(g, x, _ *Tensor) *Tensor { return asMatrices(g).Mul(x.T().Inverse()) })
	gradients[op.QR] = unaryRule(qrGradient)
	gradients[op.SVD] = unaryRule(svdGradient)
	gradients[op.Eigh] = unaryRule(eighGradient)
}

// asMatrices adds the axes of matrices to the elements of a batch.
func asMatrices(t *Tensor) *Tensor { return t.Unsqueeze(-1).Unsqueeze(-1) }

// systemGradients returns those of a and b for a·x = b, from that of b; part returns the
// part of a matrix that a has.
func (n *node) systemGradients(gb *Tensor, part func(*Tensor) *Tensor) []*Tensor {
	grads := []*Tensor{nil, gb}
	if n.needs(0) {
		grads[0] = part(gb.MatMul(n.out.T()).Neg())
	}
	if !n.needs(1) {
		grads[1] = nil
	}
	return grads
}

// symmetric returns the symmetric part.
func symmetric(t *Tensor) *Tensor { return t.Add(t.T()).Mul(0.5) }

func choleskyGradient(g, _, l *Tensor) *Tensor {
	p := l.T().MatMul(g.Tril(0))
	p = p.Tril(0).Add(p.Tril(-1)).Mul(0.5) // half of its diagonal
	left := triangular(l.T(), p, true, false)
	return symmetric(triangular(l.T(), left.T(), true, false))
}

// cofactorGradient: with X = A⁻ᵀ, C = det(A)·X.
func cofactorGradient(g, x, c *Tensor) *Tensor {
	switch n := x.shape[len(x.shape)-1]; n {
	case 0, 1: // constant
		return x.ZerosLike()
	case 2: // linear, and its own transpose
		return apply(op.Cofactor, nil, g)
	}
	inverse := x.T().Inverse()
	return g.Mul(inverse).SumKeep(-2, -1).Mul(c).Sub(inverse.MatMul(g.T()).MatMul(c))
}

// qrGradient is that of A = Q·R for a gradient of Q alone; R is computed from Q by ops.
func qrGradient(g, a, q *Tensor) *Tensor {
	r := q.T().MatMul(a).Triu(0)
	m := g.T().MatMul(q)
	m = m.Tril(0).Add(m.Tril(-1).T())
	y := g.Sub(q.MatMul(m))
	return triangular(r, y.T(), true, false).T() // y·R⁻ᵀ
}

// inverseOrZero returns 1/t, and 0 where t is 0.
func inverseOrZero(t *Tensor) *Tensor {
	zero := t.detach().Eq(0)
	return zero.Where(0, zero.Where(1, t).Reciprocal())
}

// gaps returns 1/(v[j] - v[i]), and 0 where that is not finite.
func gaps(v *Tensor) *Tensor { return inverseOrZero(v.Unsqueeze(-2).Sub(v.Unsqueeze(-1))) }

func eighGradient(g, x, p *Tensor) *Tensor {
	r := len(x.shape)
	n := x.shape[r-1]
	values, v := p.Narrow(r-2, 0, 1).Squeeze(r-2), p.Narrow(r-2, 1, 1+n)
	gw, gv := g.Narrow(r-2, 0, 1).Squeeze(r-2), g.Narrow(r-2, 1, 1+n)
	inner := gw.DiagEmbed(0).Add(gaps(values).Mul(v.T().MatMul(gv)))
	return symmetric(v.MatMul(inner).MatMul(v.T()))
}

func svdGradient(g, x, p *Tensor) *Tensor {
	r := len(x.shape)
	m, n := x.shape[r-2], x.shape[r-1]
	part := func(t *Tensor, from, to int) *Tensor { return t.Narrow(r-2, from, to) }
	s, u, v := part(p, 0, 1).Squeeze(r-2), part(p, 1, 1+m), part(p, 1+m, 1+m+n)
	gs, gu, gv := part(g, 0, 1).Squeeze(r-2), part(g, 1, 1+m), part(g, 1+m, 1+m+n)
	f := gaps(s.Square())
	skew := func(y *Tensor) *Tensor { return f.Mul(y.Sub(y.T())) }
	utgu, vtgv := u.T().MatMul(gu), v.T().MatMul(gv)
	inner := gs.DiagEmbed(0).Add(skew(utgu).Mul(s.Unsqueeze(-2))).Add(s.Unsqueeze(-1).Mul(skew(vtgv)))
	y := u.MatMul(inner).MatMul(v.T())
	over := inverseOrZero(s).Unsqueeze(-2)
	if m > n { // what U has outside of its columns' span
		y = y.Add(gu.Sub(u.MatMul(utgu)).Mul(over).MatMul(v.T()))
	}
	if n > m {
		y = y.Add(u.MatMul(gv.Sub(v.MatMul(vtgv)).Mul(over).T()))
	}
	return y
}
