//go:build (linux || darwin) && (amd64 || arm64) && !nocuda

package dynlib

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// libm is a library that every machine has: the one of C's mathematics.
func libm() string {
	if runtime.GOOS == "darwin" {
		return "/usr/lib/libSystem.B.dylib"
	}
	return "libm.so.6"
}

func TestOpenAndCall(t *testing.T) {
	l := Library{Name: "libm", Names: []string{"libnone-of-this-name.so", libm()}}
	for _, l.Global = range []bool{false, true} {
		h, err := l.Open()
		if err != nil {
			t.Fatal(err)
		}
		var cos func(float64) float64
		if err := h.Functions(map[string]any{"cos": &cos}); err != nil {
			t.Fatal(err)
		}
		if got := cos(0); got != 1 {
			t.Errorf("cos(0) = %v", got)
		}
		if runtime.GOOS == "linux" {
			if _, err := os.Stat(h.Path()); err != nil || !filepath.IsAbs(h.Path()) {
				t.Errorf("the path of %s is %q: %v", libm(), h.Path(), err)
			}
		}
	}
}

func TestSymbols(t *testing.T) {
	l := Library{Names: []string{libm()}}
	h, err := l.Open()
	if err != nil {
		t.Fatal(err)
	}
	var sin, optional, missing uintptr = 0, 1, 1
	if err := h.Symbols(map[string]*uintptr{"sin": &sin}, map[string]*uintptr{"locus_optional": &optional}); err != nil || sin == 0 || optional != 0 {
		t.Errorf("sin %#x, an optional one that is missing %#x: %v", sin, optional, err)
	}
	err = h.Symbols(map[string]*uintptr{"sin": &sin, "locus_b": &missing, "locus_a": &missing}, nil)
	if err == nil || !strings.Contains(err.Error(), "locus_a, locus_b") || !strings.Contains(err.Error(), h.Path()) {
		t.Errorf("two are missing: %v", err)
	}
	f := func() {}
	if err := h.Functions(map[string]any{"locus_a": &f}); err == nil || !strings.Contains(err.Error(), "locus_a") {
		t.Errorf("a function that is missing: %v", err)
	}
}

// The error lists what was tried, in order, with the reasons, and the remedy.
func TestErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libtext.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := Library{Name: "a library", Env: "LOCUS_TEST_LIBRARY", Names: []string{"libnone-of-this-name.so"},
		Files: []string{"libtext.so"}, Folders: []string{filepath.Dir(text)}, Remedy: "install it"}
	_, err := l.Open()
	if err == nil {
		t.Fatal("a text file was loaded")
	}
	at := -1
	for _, want := range []string{"a library was not found; install it; tried, in this order:", "libnone-of-this-name.so", text} {
		i := strings.Index(err.Error(), want)
		if i <= at {
			t.Errorf("%q is not where it should be in: %v", want, err)
		}
		at = i
	}
	// The file that the environment names, and no other.
	t.Setenv(l.Env, libm())
	if _, err := l.Open(); err != nil {
		t.Errorf("%s=%s: %v", l.Env, libm(), err)
	}
	t.Setenv(l.Env, text)
	l.Names = []string{libm()}
	if _, err := l.Open(); err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), l.Env) {
		t.Errorf("%s=%s: %v", l.Env, text, err)
	}
}

// A candidate that can be loaded and is not accepted makes room for the next.
func TestFirstAsksAccept(t *testing.T) {
	refusal, asked := errors.New("not this one"), 0
	h, err := First([]string{libm(), libm()}, false, func(*Handle) error {
		if asked++; asked == 1 {
			return refusal
		}
		return nil
	})
	if err != nil || h == nil || asked != 2 {
		t.Errorf("%v, %v after %d questions", h, err, asked)
	}
	if _, err := First([]string{libm()}, false, func(*Handle) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("all refused: %v", err)
	}
}
