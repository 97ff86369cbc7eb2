package optest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/op"
)

var update = flag.Bool("update", false, "write docs/ops.md")

// TestPage fails when the docs' list of ops is not what the table says.
func TestPage(t *testing.T) {
	exported, err := ExportedOps("../..")
	if err != nil {
		t.Fatal(err)
	}
	r, err := load()
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../docs/ops.md"
	want := Page(exported, r)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/ops.md is out of date: go test ./internal/optest -run TestPage -update")
	}
}

// TestComplete fails when an exported op is not in the table, or when the table
// names one that is not exported or not documented.
func TestComplete(t *testing.T) {
	exported, err := ExportedOps("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Missing(exported) {
		t.Errorf("%s is exported but not in the table of internal/optest", name)
	}
	docs := map[string]string{}
	for _, e := range exported {
		docs[e.Name] = e.Doc
	}
	for _, o := range Table() {
		if docs[o.Name] == "" {
			t.Errorf("%s is in the table but not exported, or has no documentation", o.Name)
		}
	}
}

// TestPublicNames fails when an error would name a primitive by what is not exported.
func TestPublicNames(t *testing.T) {
	exported, err := ExportedOps("../..")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"UpdateAll": true} // which returns no tensors
	for _, e := range exported {
		names[e.Name[strings.LastIndexByte(e.Name, '.')+1:]] = true
	}
	for _, def := range op.All() {
		if name := op.Public(def.Name); !names[strings.TrimSuffix(name, "'s gradient")] {
			t.Errorf("%s is called %s in errors, which is not exported", def.Name, name)
		}
	}
}
