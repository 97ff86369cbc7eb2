package backendtest

import (
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// What the table says of half precision is what the references, and with them the
// kernels of every backend, are held to.
func TestHalfRules(t *testing.T) {
	asked := map[op.ID]bool{op.CastTo: true, op.CastAll: true} // their results are what the program asks for
	for _, def := range op.All() {
		if def.Family == op.ViewFamily {
			continue
		}
		for _, d := range []dtype.DType{dtype.BFloat16, dtype.Float16} {
			if !def.KernelTypes().Has(d) {
				continue
			}
			wide, rounds := false, false
			for _, s := range sample.Of(def.ID, d) {
				if s.Big {
					continue
				}
				tensors := s.Tensors()
				complete(s, tensors)
				e := evaluate(s, tensors)
				for _, r := range append([]*expected{e}, e.more...) {
					switch r.dtype {
					case dtype.Float32:
						wide = true
					case d:
						rounds = rounds || !r.exact && r.halves > 1
					}
				}
			}
			if wide && !asked[def.ID] != (def.Half.Float32 != "") {
				t.Errorf("%s of %s: results of float32: %v, the table says %q", def.Name, d, wide, def.Half.Float32)
			}
			if rounds != (def.Half.Rounds != "") {
				t.Errorf("%s of %s: may round on the way: %v, the table says %q", def.Name, d, rounds, def.Half.Rounds)
			}
		}
	}
}
