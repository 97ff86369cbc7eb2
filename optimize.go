package locus

import "github.com/locusml/locus/internal/op"

// Blend returns a·t + b·y in one pass over memory; t and y have one shape.
func (t *Tensor) Blend(a float64, y *Tensor, b float64) *Tensor {
	return apply(op.Blend, op.Scales{A: a, B: b}, t, y)
}

// BlendSquare returns a·t + b·y² in one pass over memory; t and y have one shape.
func (t *Tensor) BlendSquare(a float64, y *Tensor, b float64) *Tensor {
	return apply(op.BlendSquare, op.Scales{A: a, B: b}, t, y)
}

// AdamStep returns keep·t - rate·mean/(√square·root + eps), what Adam makes of a
// parameter t, in one pass over memory; all have one shape.
func (t *Tensor) AdamStep(mean, square *Tensor, keep, rate, root, eps float64) *Tensor {
	return apply(op.AdamStep, op.Adam{Keep: keep, Rate: rate, Root: root, Eps: eps}, t, mean, square)
}

func init() {
	compositions[op.Blend] = func(a op.Attrs, in []*Tensor) *Tensor {
		s := a.(op.Scales)
		return in[0].Mul(s.A).Add(in[1].Mul(s.B))
	}
	compositions[op.BlendSquare] = func(a op.Attrs, in []*Tensor) *Tensor {
		s := a.(op.Scales)
		return in[0].Mul(s.A).Add(in[1].Square().Mul(s.B))
	}
	compositions[op.AdamStep] = func(a op.Attrs, in []*Tensor) *Tensor {
		s := a.(op.Adam)
		return in[0].Mul(s.Keep).Sub(in[1].Div(in[2].Sqrt().Mul(s.Root).Add(s.Eps)).Mul(s.Rate))
	}
	for _, id := range []op.ID{op.Blend, op.BlendSquare, op.AdamStep} {
		gradients[id] = throughComposition
	}
}
