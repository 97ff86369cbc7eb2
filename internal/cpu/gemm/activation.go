package gemm

import (
	"math"

	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// activations are the functions of op.Activations.
var activations = [op.NumOps]struct {
	f32 func(dst, x []float32)
	f64 func(dst, x []float64)
}{
	op.Relu:        {vec.ReluF32, vec.ReluF64},
	op.Gelu:        {vec.GeluF32, each(func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) })},
	op.GeluTanh:    {vec.GeluTanhF32, each(geluTanh)},
	op.Silu:        {vec.SiluF32, each(func(x float64) float64 { return x / (1 + math.Exp(-x)) })},
	op.Sigmoid:     {vec.SigmoidF32, each(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })},
	op.Tanh:        {vec.TanhF32, each(math.Tanh)},
	op.Relu6:       {vec.Relu6F32, vec.Relu6F64},
	op.HardSigmoid: {vec.HardSigmoidF32, vec.HardSigmoidF64},
	op.HardSwish:   {vec.HardSwishF32, vec.HardSwishF64},
}

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func each(f func(float64) float64) func(dst, x []float64) {
	return func(dst, x []float64) {
		for i, v := range x {
			dst[i] = f(v)
		}
	}
}

// Activate applies act, one of op.Activations or none, to each element of row.
func Activate[T Float](act op.ID, row []T) {
	if act == op.Invalid {
		return
	}
	switch r := any(row).(type) {
	case []float32:
		activations[act].f32(r, r)
	case []float64:
		activations[act].f64(r, r)
	}
}
