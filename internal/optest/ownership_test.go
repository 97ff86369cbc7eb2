package optest

import (
	"testing"

	"github.com/locusml/locus"
)

// TestOwnership holds every op to the one rule of memory (docs/memory.md): a result
// in memory of its own is freed by Free, and Free on a result that is a view of an
// operand leaves the operand alone. Recorded or not makes no difference.
func TestOwnership(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		seen := map[string]bool{}
		for i, c := range records(t) {
			if i%every(5) != 0 {
				continue
			}
			o := lookup(t, c)
			for _, tracked := range []bool{false, true} {
				if tracked && !(o.Differentiable() && c.DType.IsFloat()) {
					continue
				}
				in := c.Inputs(d, c.DType)
				bases := append([]*locus.Tensor{}, in...)
				if tracked {
					for k, x := range in {
						if x != nil && x.DType().IsFloat() {
							in[k] = x.RequireGrad()
						}
					}
				}
				var out []*locus.Tensor
				if err := guarded(func() { out = c.Call(o, d, in) }); err != nil {
					t.Fatalf("%s: %v", c, err)
				}
				for k, y := range out {
					if y.Len() == 0 {
						continue
					}
					borrowed := false
					identity := false
					for _, x := range append(in, bases...) {
						borrowed = borrowed || x != nil && y.SharesMemory(x)
						identity = identity || y == x
					}
					for _, other := range out[:k] { // two results may be views of one
						borrowed = borrowed || y.SharesMemory(other)
					}
					for _, other := range out[k+1:] {
						borrowed = borrowed || y.SharesMemory(other)
					}
					if identity {
						continue // the operand itself: there was nothing to do
					}
					y.Free()
					if y.Freed() == borrowed && !seen[o.Name] {
						seen[o.Name] = true
						t.Errorf("%s (recorded: %v): result %d shares an operand's memory: %v; freed by Free: %v", c, tracked, k, borrowed, y.Freed())
					}
				}
			}
		}
	})
}
