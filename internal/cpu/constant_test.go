package cpu

import (
	"math"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// A number beside a tensor, on either side, as a constant and as one element
// that is repeated, gives what a tensor full of it does.
func TestNumbers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	values := []float32{0, 1, -1, 2.5, -0.75, inf, -inf, nan, math.MaxFloat32, math.SmallestNonzeroFloat32, 3, 0.1}
	for _, id := range []op.ID{op.Add, op.Sub, op.Mul, op.Div, op.Maximum, op.Minimum, op.Pow,
		op.Equal, op.NotEqual, op.Less, op.LessEqual, op.Greater, op.GreaterEqual} {
		for _, n := range []int{1, 7, 70001} {
			x := view32(t, []int{n}, func(i int) float32 { return values[i%len(values)] })
			for _, number := range values {
				full := view32(t, []int{n}, func(int) float32 { return number })
				constant := backend.View{Shape: []int{n}, Strides: []int{0}, DType: dtype.Float32, Bits: uint64(math.Float32bits(number))}
				repeated := view32(t, []int{1}, func(int) float32 { return number })
				repeated.Shape, repeated.Strides = []int{n}, []int{0}
				for _, side := range []string{"second", "first"} {
					operands := func(v backend.View) []backend.View {
						if side == "first" {
							return []backend.View{v, x}
						}
						return []backend.View{x, v}
					}
					want := runNumber32(t, id, n, operands(full))
					for name, v := range map[string]backend.View{"constant": constant, "repeated": repeated} {
						got := runNumber32(t, id, n, operands(v))
						for i := range want {
							if got[i] != want[i] && !(got[i] != got[i] && want[i] != want[i]) {
								t.Fatalf("%v of %d elements, %v as %s operand (%s): element %d is %v, want %v", id, n, number, side, name, i, got[i], want[i])
							}
						}
					}
				}
			}
		}
	}
}

// runNumber32 runs an op of float32 and returns its result, bools as numbers.
func runNumber32(t *testing.T, id op.ID, n int, in []backend.View) []float32 {
	t.Helper()
	out := view32(t, []int{n}, func(int) float32 { return 0 })
	bools := id >= op.Equal && id <= op.GreaterEqual
	if bools {
		out.DType = dtype.Bool
	}
	if err := Open().Run(&backend.Call{Op: id, In: in, Out: out}); err != nil {
		t.Fatal(err)
	}
	if !bools {
		return elements[float32](&out, n)
	}
	var l []float32
	for _, b := range elements[uint8](&out, n) {
		l = append(l, float32(b))
	}
	return l
}
