package nn

import "github.com/locusml/locus"

// beside puts a tensor that was just made into x's scope: it is needed no longer
// than what is computed from x.
func beside(x, made *locus.Tensor) *locus.Tensor {
	if s := x.Scope(); s != nil {
		_ = locus.Try(func() { s.Adopt(made) }) // if the scope closes at this moment, the collector frees it
	}
	return made
}
