package nn

import (
	"fmt"

	"github.com/locusml/locus"
)

// EmbeddingLayer looks up rows of a table.
type EmbeddingLayer struct {
	Weight *Parameter // (n, features)

	n, features int
	padding     []int // the row that stands for padding, if any
	opts        options
}

// Embedding makes a table of n rows of the given number of features, drawn from
// the standard normal distribution. With [PaddingIndex] one row stays zero.
func Embedding(n, features int, opts ...Option) *EmbeddingLayer {
	sizes("nn.Embedding", n, features)
	o := gather(opts)
	l := &EmbeddingLayer{Weight: o.lazy(n, features), n: n, features: features, opts: o}
	if o.padding != nil {
		l.padding = []int{*o.padding}
		if *o.padding < 0 || *o.padding >= n {
			panic(&locus.Error{Kind: locus.ErrIndex, Op: "nn.Embedding", Msg: fmt.Sprintf("the padding index is %d; the table has %d rows", *o.padding, n)})
		}
	}
	l.opts.weight = l.rows(o.weightOr(Normal(0, 1)))
	l.Weight.own(l.opts.weight)
	l.make()
	return l
}

// rows is an initializer of the table, whose row for padding is zero.
func (l *EmbeddingLayer) rows(init Initializer) Initializer {
	if len(l.padding) == 0 {
		return init
	}
	row := l.padding[0]
	return func(m locus.Maker, shape []int) *locus.Tensor {
		w := init(m, shape)
		return w.Device().Arange(float64(shape[0])).Eq(row).Unsqueeze(1).Where(0, w)
	}
}

func (l *EmbeddingLayer) make() {
	l.opts.make(locus.DefaultDevice(), l.Weight, nil, nil, nil, l.n, l.features)
}

// Forward looks up the rows that x, integers of any shape, names.
func (l *EmbeddingLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.Embedding", l != nil && l.Weight != nil)
	defer blame(l)
	return locus.Embedding(l.Weight.Value(), x, l.padding...)
}

func (l *EmbeddingLayer) reset(key locus.Key) {
	l.opts.key, l.Weight = key, l.Weight.unmade()
	l.make()
}
