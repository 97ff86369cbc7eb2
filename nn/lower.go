package nn

import "github.com/locusml/locus"

// Lower returns a network of m's structure that computes in another floating-point
// type: mixed precision. Its parameters are m's, rounded to d in scope s (nil: in
// none), and gradients flow through the rounding to m's own, which keep their type.
// Running statistics and what dropout draws from are m's. Convert the inputs too,
// and the outputs back before the loss:
//
//	half := nn.Lower(s, net, locus.BFloat16)
//	y := half.Forward(x.Cast(locus.BFloat16)).Cast(locus.Float32)
//
// Make it anew for each step: it has the values of the moment. For Float16, whose
// range is small, see optim.Scaler.
func Lower[M any](s *locus.Scope, m M, d locus.DType) M {
	if !d.Valid() || !d.IsFloat() {
		fail(locus.ErrDType, "nn.Lower", d.String()+" is no floating-point type", "use locus.BFloat16, Float16 or Float32")
	}
	return Bind(m, Trainable(m).Map(func(_ string, p *locus.Tensor) *locus.Tensor {
		if !p.DType().IsFloat() {
			return p
		}
		if s != nil {
			p = s.Use(p)
		}
		return p.Cast(d)
	}))
}
