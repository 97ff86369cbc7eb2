package op

import (
	"testing"

	"github.com/locusml/locus/dtype"
)

// Every ID but that of fused steps, which only programs have, has a complete
// description; names are unique.
func TestTableIsComplete(t *testing.T) {
	names := map[string]bool{}
	for id := Invalid + 1; id < FusedOps; id++ {
		d := Get(id)
		if d.Name == "" || d.ID != id || d.Family == 0 || d.Infer == nil || d.Doc == "" {
			t.Errorf("op %d (%q) is not fully described", id, d.Name)
		}
		if names[d.Name] {
			t.Errorf("name %q is used twice", d.Name)
		}
		names[d.Name] = true
		if got, ok := ByName(d.Name); !ok || got.ID != id {
			t.Errorf("ByName(%q) = %v, %v", d.Name, got, ok)
		}
	}
}

// The activations are unary ops of floats, each listed once: their places are
// numbers that kernels know.
func TestActivations(t *testing.T) {
	seen := map[ID]bool{}
	for _, id := range Activations {
		if d := Get(id); d.Family != UnaryFamily || d.Accepts(0)&dtype.Floats != dtype.Floats || seen[id] || !CanEnd(id) {
			t.Errorf("%s cannot be an activation, or is one twice", d.Name)
		}
		seen[id] = true
	}
	if !CanEnd(Invalid) || CanEnd(Exp) {
		t.Errorf("CanEnd(none) = %v, want true; CanEnd(exp) = %v, want false", CanEnd(Invalid), CanEnd(Exp))
	}
}

// What selects a kernel: the first operand's type, not the result's; for where that
// of the values, not of the condition; without operands the result's.
func TestKernelType(t *testing.T) {
	b, f, i := Spec{DType: dtype.Bool}, Spec{DType: dtype.Float32}, Spec{DType: dtype.Int64}
	for _, c := range []struct {
		id   ID
		in   []Spec
		out  Spec
		want dtype.DType
	}{
		{Add, []Spec{f, f}, f, dtype.Float32},
		{Less, []Spec{f, f}, b, dtype.Float32},
		{CastTo, []Spec{i}, f, dtype.Int64},
		{Take, []Spec{f, i}, f, dtype.Float32},
		{Where, []Spec{b, f, f}, f, dtype.Float32},
		{RandNormal, nil, f, dtype.Float32},
	} {
		d := Get(c.id)
		if got := d.KernelType(c.in, c.out); got != c.want || !d.KernelTypes().Has(got) {
			t.Errorf("%s: KernelType %s, want %s; KernelTypes %s", d.Name, got, c.want, d.KernelTypes())
		}
	}
}

// TestBatch makes sure that every op states how it computes many slices at once.
func TestBatch(t *testing.T) {
	for _, d := range All() {
		if k := d.Batch.Kind; k < BatchView || k > BatchLoop {
			t.Errorf("%s states no way to compute many slices at once: %s", d, k)
		}
	}
}
