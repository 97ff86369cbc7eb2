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
// Make a new one in each step: it has m's values of the moment. For Float16, whose
// range is small, see optim.Scaler.
func Lower[M any](s *locus.Scope, m M, d locus.DType) M {
	if !d.Valid() || !d.IsFloat() {
		fail(locus.ErrDType, "nn.Lower", d.String()+" is not a floating-point type", "use locus.BFloat16, Float16 or Float32")
	}
	tree := Trainable(m)
	names := tree.Names()
	values := make([]*locus.Tensor, len(names))
	for i, n := range names {
		if values[i] = tree[n]; s != nil {
			values[i] = s.Use(values[i])
		}
	}
	for i, t := range locus.CastAll(values, d) { // one launch for all of them
		tree[names[i]] = t
	}
	return Bind(m, tree)
}
