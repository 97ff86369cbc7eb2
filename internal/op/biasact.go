package op

import "slices"

// What a bias has around it, as two ops in one, which eager steps use where nobody records
// or traces the single ones. Each result is rounded as the result of the op alone would be.
//
// BiasActivate is Act(x + bias): x (N, C, …), bias (C). Its attribute is Epilogue, and the
// result may be written over x. ActivationGradSum has the two operands of the gradient of
// an activation and its result; its second result is the sum of that over some axes, which go and which
// is the gradient of a bias. Its attribute is GradSum.

func init() {
	for _, id := range []ID{BiasActivate, ActivationGradSum} {
		table[id].ID = id
	}
	passNames[BiasActivate], passNames[ActivationGradSum] = "bias_activate", "activation_grad_sum"
}

// GradSum is the attribute of ActivationGradSum.
type GradSum struct {
	Grad ID // one of ActivationGrads
	Axes AxisSet
}

// ActivationGrads are the gradients that ActivationGradSum computes.
var ActivationGrads = []ID{ReluGrad, Relu6Grad, SigmoidGrad, TanhGrad, GeluGrad, GeluTanhGrad, SiluGrad}

// SumsGrad reports whether ActivationGradSum computes the gradient id.
func SumsGrad(id ID) bool { return slices.Contains(ActivationGrads, id) }
