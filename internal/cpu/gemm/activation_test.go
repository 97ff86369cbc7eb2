package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/locusml/locus/internal/op"
)

// ends are what a product can end with.
func ends() []op.ID { return append([]op.ID{op.Invalid}, op.Activations...) }

func anyActivation(r *rand.Rand) op.ID { return ends()[r.IntN(len(ends()))] }

// activate64 is the reference of one element.
func activate64(act op.ID, x float64) float64 {
	row := []float64{x}
	Activate(act, row)
	return row[0]
}

// Every activation of the op table has its functions, and nothing else has.
func TestEveryActivationHasItsFunctions(t *testing.T) {
	listed := map[op.ID]bool{}
	for _, act := range op.Activations {
		listed[act] = true
	}
	for id, f := range activations {
		if (f.f32 != nil) != listed[op.ID(id)] || (f.f64 != nil) != listed[op.ID(id)] {
			t.Errorf("%s: listed in op.Activations: %v; float32: %v, float64: %v", op.ID(id), listed[op.ID(id)], f.f32 != nil, f.f64 != nil)
		}
	}
}
