package nn

import "github.com/locusml/locus"

// EmbeddingLayer looks rows of a table up.
type EmbeddingLayer struct {
	Weight *Parameter // (n, features)
}

// Embedding makes a table of n rows of the given number of features, drawn from
// the standard normal distribution.
func Embedding(n, features int, opts ...Option) *EmbeddingLayer {
	l := &EmbeddingLayer{Weight: new(Parameter)}
	gather(opts).make(locus.DefaultDevice(), l.Weight, Normal(0, 1), nil, nil, n, features)
	return l
}

// Forward looks up the rows that x, whole numbers of any shape, names.
func (l *EmbeddingLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.Embedding(l.Weight.Value(), x)
}

// ResidualLayer adds its input to what its body makes of it.
type ResidualLayer struct {
	Body     Module
	Shortcut Module // applied to the input where the body changes its shape; may be nil
}

// Residual makes a layer x + body(x); shortcut may be nil.
func Residual(body, shortcut Module) *ResidualLayer { return &ResidualLayer{body, shortcut} }

// Forward gives body(x) + shortcut(x).
func (l *ResidualLayer) Forward(x *locus.Tensor) *locus.Tensor {
	y := l.Body.Forward(x)
	if l.Shortcut != nil {
		x = l.Shortcut.Forward(x)
	}
	return y.Add(x)
}
