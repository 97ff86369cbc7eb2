package kernels

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/locusml/locus/internal/op"
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

// Comments have no part in the hash of a source, and everything else has.
func TestHashIsOfCode(t *testing.T) {
	hash := func(src string) string {
		h, err := Hash(fstest.MapFS{"a.cu": {Data: []byte(src)}, "b.cuh": {Data: []byte("int b;\n")}}, "a")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	const src = "#include \"b.cuh\"\nint a = 1;\n"
	if hash("// What it is.\n#include \"b.cuh\"\n\nint a = 1; // why\n") != hash(src) {
		t.Error("a comment changes the hash")
	}
	if hash("#include \"b.cuh\"\nint a = 2;\n") == hash(src) {
		t.Error("another number leaves the hash as it is")
	}
	for _, pattern := range []string{"*.cu", "*.cuh"} {
		files, err := fs.Glob(os.DirFS("."), pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if bad := regexp.MustCompile(`/\*|(?m)^[^"/]*("[^"]*"[^"/]*)*"[^"]*//`).Find(text); bad != nil {
				t.Errorf("%s: %q: Hash takes a // for a comment wherever it is; write comments as // and not in strings", f, bad)
			}
		}
	}
}

// Kernels number the activations as op.Activations does, and have each.
func TestActivationsAreThoseOfTheOpTable(t *testing.T) {
	src, err := os.ReadFile("product.cuh")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"NO_ACT"}
	for _, id := range op.Activations {
		name := id.String()
		want = append(want, strings.ToUpper(name))
		if !regexp.MustCompile(`case ` + strings.ToUpper(name) + `: return (m_)?` + name + `\(x\);`).Match(src) {
			t.Errorf("activate in product.cuh has no case for %s", name)
		}
	}
	enum := regexp.MustCompile(`enum Act \{(.*)\}`).FindSubmatch(src)
	if enum == nil {
		t.Fatal("product.cuh has no enum Act")
	}
	if got := strings.Split(strings.TrimSpace(string(enum[1])), ", "); !slices.Equal(got, want) {
		t.Errorf("Act in product.cuh is %v; op.Activations is %v", got, want)
	}
}

// heavy.go, which the Go side goes by, lists the kernels with the width HEAVY.
func TestHeavyIsInStepWithTheSources(t *testing.T) {
	names, err := HeavyIn(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 || !slices.Equal(names, Heavy) {
		t.Errorf("the .cu files have the width HEAVY in %v, heavy.go lists %v: run go generate ./internal/cuda", names, Heavy)
	}
	text, err := os.ReadFile("heavy.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != HeavyFile(names) {
		t.Error("heavy.go is not what gen writes: run go generate ./internal/cuda")
	}
}
