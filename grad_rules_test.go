package locus

import (
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// Every primitive that maps floating-point numbers to floating-point numbers
// has a gradient rule, and every fused one without a rule of its own a
// composition. What has none says why here.
func TestEveryDifferentiableOpHasARule(t *testing.T) {
	without := map[op.ID]string{
		op.And: "integers", op.Or: "integers", op.Xor: "integers", op.Not: "bools",
		op.IsNaN: "bools", op.IsInf: "bools", op.IsFinite: "bools",
		op.ArgMax: "positions", op.ArgMin: "positions", op.CumMax: "positions", op.CumMin: "positions", op.ArgSort: "positions", op.MaxPoolIndices: "positions",
		op.UpdateAll: "no gradient is asked for", op.ScaleAll: "its composition has it", op.CastAll: "its results have the history of casts",
	}
	for _, d := range op.All() {
		reason, excused := without[d.ID]
		switch {
		case d.Family == op.CreateFamily || d.Family == op.CompareFamily:
			excused = true
		case d.Parts: // where a history is recorded, it is that of the composition
			excused = true
		case excused && d.Family != op.IndexFamily && reason == "":
			t.Errorf("%s is excused without a reason", d)
		}
		switch has := gradients[d.ID] != nil; {
		case !has && !excused:
			t.Errorf("%s has no gradient rule: set gradients[op.…] in the grad_….go of its kind, to throughComposition if that will do, or say here why there is none", d)
		case has && excused:
			t.Errorf("%s has a gradient rule and is excused from having one", d)
		}
		if d.Family == op.FusedFamily && compositions[d.ID] == nil && compositionsAll[d.ID] == nil {
			t.Errorf("%s is fused and has no composition: set compositions[op.…], or compositionsAll for several results, where its gradient rule is", d)
		}
		if !excused && d.Accepts(0)&dtype.Floats == 0 && d.ID != op.Where {
			t.Errorf("%s has a rule but takes no floating-point numbers", d)
		}
	}
}
