package kernels

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// The PTX is what the sources in the folder compile to.
func TestPTXIsInStepWithItsSources(t *testing.T) {
	dir := os.DirFS(".")
	sources, err := fs.Glob(dir, "*.cu")
	if err != nil {
		t.Fatal(err)
	}
	names := Names()
	for _, f := range sources {
		name := strings.TrimSuffix(f, ".cu")
		if !slices.Contains(names, name) {
			t.Errorf("%s has not been compiled: run go generate ./internal/cuda", f)
			continue
		}
		hash, err := Hash(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		ptx, err := PTX(name)
		if err != nil {
			t.Fatal(err)
		}
		if line, _, _ := strings.Cut(ptx, "\n"); line != HashLine(hash) {
			t.Errorf("%s.ptx.gz is not made of the present %s: run go generate ./internal/cuda", name, f)
		}
		target := TargetOf(name)
		for _, want := range []string{".version " + target.Version, ".target sm_" + target.Arch} {
			if !strings.Contains(ptx, want+"\n") {
				t.Errorf("%s.ptx.gz lacks %q", name, want)
			}
		}
	}
	for _, n := range names {
		if !slices.Contains(sources, n+".cu") {
			t.Errorf("%s.ptx.gz has no source", n)
		}
	}
}
