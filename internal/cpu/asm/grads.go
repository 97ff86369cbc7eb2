package main

import . "github.com/mmcloughlin/avo/operand"

// The gradients of activations that are worth a function of their own: a is
// the gradient that comes in, b the activation's result (for relu, either its
// result or its operand).

func emitReluGrad(v *vk) {
	v.elementwise("a b", 4, func(in ...Op) V {
		return v.keep(v.cmp(gt, in[1], v.zero()), in[0].(V))
	}, nil)
}

func emitSigmoidGrad(v *vk) {
	v.elementwise("a b", 2, func(in ...Op) V {
		y := v.in(in[1])
		return v.mul(in[0], v.mul(v.sub(v.c(1), y), y))
	}, nil)
}

func emitTanhGrad(v *vk) {
	v.elementwise("a b", 2, func(in ...Op) V {
		y := v.in(in[1])
		return v.mul(in[0], v.sub(v.c(1), v.mul(y, y)))
	}, nil)
}
