//go:build (linux || darwin) && (amd64 || arm64) && !nocuda

package blas

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestOpenWhatIsNoBLAS(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libopenblas.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	libc := "libc.so.6"
	if runtime.GOOS == "darwin" {
		libc = "/usr/lib/libSystem.B.dylib"
	}
	for _, c := range []struct{ name, says string }{
		{text, text},
		{libc, "not a BLAS library with a C interface"},
		{filepath.Join(t.TempDir(), "libnone.so"), "no such file"},
		{"libnone-of-this-name.so", "libnone-of-this-name.so"},
	} {
		if runtime.GOOS == "darwin" && c.name == libc {
			continue // no file: it is part of the loader's cache
		}
		l, err := Open(c.name)
		if err == nil {
			t.Errorf("%s was loaded as %s", c.name, l)
			continue
		}
		for _, want := range []string{c.says, "give the path of"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Open(%q): %v\nsays nothing of %q", c.name, err, want)
			}
		}
	}
}

// A folder of a virtual environment is searched, after the system's names.
func TestPlaces(t *testing.T) {
	venv := t.TempDir()
	folder := filepath.Join(venv, "lib/python3.13/site-packages/numpy.libs")
	file := filepath.Join(folder, "libscipy_openblas64_-1234.so")
	if runtime.GOOS == "darwin" {
		file = filepath.Join(folder, "libscipy_openblas64_.dylib")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIRTUAL_ENV", venv)
	t.Setenv("CONDA_PREFIX", "")
	openBLAS, mkl := kinds(runtime.GOOS)
	got := openBLAS.Candidates()
	if !slices.Equal(got[:len(openBLAS.Names)], openBLAS.Names) || !slices.Contains(got, file) {
		t.Errorf("tried are %q", got)
	}
	if slices.Contains(mkl.Candidates(), file) {
		t.Error("OpenBLAS was taken for MKL")
	}
}
