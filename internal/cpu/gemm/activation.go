package gemm

import (
	"math"

	"github.com/locusml/locus/internal/cpu/vec"
)

// Activate applies act to each element of row, for results that did not pass an
// Epilogue.
func Activate[T Float](act Activation, row []T) {
	if act != ReLU {
		activateRow(act, row)
		return
	}
	switch r := any(row).(type) {
	case []float32:
		vec.ReluF32(r, r)
	case []float64:
		vec.ReluF64(r, r)
	}
}

func activate64(act Activation, x float64) float64 {
	switch act {
	case ReLU:
		if x < 0 {
			return 0
		}
	case GELU:
		return 0.5 * x * math.Erfc(-x/math.Sqrt2)
	case GELUTanh:
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case SiLU:
		return x / (1 + math.Exp(-x))
	case Sigmoid:
		return 1 / (1 + math.Exp(-x))
	case Tanh:
		return math.Tanh(x)
	}
	return x
}
