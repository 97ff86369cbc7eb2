package dynlib

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// touch makes empty files below a new folder.
func touch(t *testing.T, files ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, f := range files {
		f = filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The loader's names come first; then folders in their order, in each the best name,
// and of several versions the newest; no stubs, and nothing twice.
func TestCandidates(t *testing.T) {
	root := touch(t, "cuda-9.2/lib/libx.so.2", "cuda-12.0/lib/libx.so.2", "cuda-12.0/lib/libx.so.1", "cuda-9.2/lib/stubs/libx.so.2",
		"other/libx.so.1", "other/libx_64.so", "other/libx_32.so")
	l := Library{Names: []string{"libx.so.2", "libx.so.1"},
		Folders: []string{filepath.Join(root, "cuda*/lib"), filepath.Join(root, "cuda*/lib/stubs"), filepath.Join(root, "missing"), filepath.Join(root, "other"), filepath.Join(root, "oth*")}}
	check := func(want ...string) {
		t.Helper()
		for i := range want[2:] {
			want[2+i] = filepath.Join(root, want[2+i])
		}
		if got := l.Candidates(); !slices.Equal(got, want) {
			t.Errorf("candidates\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check("libx.so.2", "libx.so.1", "cuda-12.0/lib/libx.so.2", "cuda-9.2/lib/libx.so.2", "cuda-12.0/lib/libx.so.1", "other/libx.so.1")
	l.Files = []string{"libx_*.so"}
	check("libx.so.2", "libx.so.1", "other/libx_32.so", "other/libx_64.so")
}

func TestByVersion(t *testing.T) {
	sorted := []string{"", "cuda", "cuda-9", "cuda-9.2", "cuda-12", "cuda-12.0", "cuda-12.0x", "cuda-12.9", "cuda-12.10", "cudb"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := byVersion(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("byVersion(%q, %q) = %d", a, b, got)
			}
		}
	}
}

func TestWheels(t *testing.T) {
	t.Setenv("VIRTUAL_ENV", "/venv")
	t.Setenv("CONDA_PREFIX", "/conda")
	want := []string{"/conda/lib", "/venv/lib", "/venv/lib/python3*/site-packages/nvidia/nccl/lib",
		"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib", "/usr/lib/python3*/*-packages/nvidia/nccl/lib"}
	got := Wheels("nvidia/nccl/lib")
	for i := range got {
		got[i] = filepath.ToSlash(got[i])
	}
	if !slices.Equal(got, want) {
		t.Errorf("Wheels: %q\nwant %q", got, want)
	}
}

// The environment switches a library off, in any build and before anything is tried.
func TestOff(t *testing.T) {
	l := Library{Name: "a library", Env: "LOCUS_TEST_LIBRARY", Names: []string{"libnone.so"}}
	for _, v := range []string{"off", "OFF", "0"} {
		t.Setenv(l.Env, v)
		if _, err := l.Open(); !errors.Is(err, ErrOff) || !strings.Contains(err.Error(), l.Env+"="+v) {
			t.Errorf("%s=%s: %v", l.Env, v, err)
		}
	}
	t.Setenv(l.Env, "")
	if err := l.Off(); err != nil {
		t.Errorf("a variable that is not set: %v", err)
	}
	if _, err := First(nil, false, nil); err == nil {
		t.Error("no candidates, no error")
	}
}
