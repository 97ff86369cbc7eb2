package train

import "github.com/locusml/locus"

// scaler keeps small float16 gradients from vanishing: the loss is multiplied by
// a scale before the gradient is taken, and the gradients are divided by it
// afterwards. Where that overflows, the step is left out and the scale halved;
// after many good steps it is doubled. All of it stays on the device: whether a
// step counts is a tensor that chooses between old and new values.
type scaler struct {
	scale, good *locus.Tensor // float32, one element, in no scope
}

const (
	firstScale  = 1 << 16
	growthSteps = 2000
)

func newScaler(d locus.Device) *scaler {
	return &scaler{d.Full(firstScale), d.Zeros()}
}

// unscale divides gradients by the scale, and tells whether all of them are
// finite. Entries may be nil.
func (s *scaler) unscale(grads []*locus.Tensor) (out []*locus.Tensor, ok *locus.Tensor) {
	inverse := s.scale.Reciprocal()
	out = make([]*locus.Tensor, len(grads))
	for i, g := range grads {
		if g != nil {
			out[i] = g.Mul(inverse.Cast(g.DType()))
		}
	}
	return out, locus.GlobalNorm(out).IsFinite()
}

// update moves the scale after a step that did or did not count.
func (s *scaler) update(ok *locus.Tensor) {
	good := ok.Where(s.good.Add(1), 0)
	grow := good.Ge(growthSteps)
	scale := ok.Where(grow.Where(s.scale.Mul(2), s.scale), s.scale.Mul(0.5).Maximum(1))
	good = grow.Where(0, good)
	for _, t := range []*locus.Tensor{scale, good} {
		if sc := t.Scope(); sc != nil {
			sc.Keep(t)
		}
	}
	s.scale.Free()
	s.good.Free()
	s.scale, s.good = scale, good
}
