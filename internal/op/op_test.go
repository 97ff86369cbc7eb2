package op

import "testing"

// Every ID has a complete description; names are unique.
func TestTableIsComplete(t *testing.T) {
	names := map[string]bool{}
	for id := Invalid + 1; id < NumOps; id++ {
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
