// Package callsite finds the line of the user's program that led to a call,
// for messages that say where something was made or copied.
package callsite

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// root is the folder of the framework's source, as the compiler knows it. Files
// tell better than functions where code is from: a closure in a function that was
// inlined bears the name of the function that it was inlined into.
var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return strings.TrimSuffix(file, "internal/callsite/callsite.go")
}()

// Site is a captured call stack, cheap to take and resolved only when printed. Sites
// are comparable: the same path through the program has the same Site.
type Site [20]uintptr

// Here captures the stack of the caller, leaving out skip more frames.
func Here(skip int) Site {
	var s Site
	runtime.Callers(skip+2, s[:])
	return s
}

// String returns "file.go:12" of the innermost frame outside the framework, with
// its folder; the framework's own tests and examples count as outside. Where the stack
// that was kept does not reach that far, as in a trainer, it is the innermost frame of a
// package that builds on locus: a layer, a loss, an optimizer.
func (s Site) String() string {
	n := 0
	for n < len(s) && s[n] != 0 {
		n++
	}
	if n == 0 {
		return "unknown"
	}
	frames := runtime.CallersFrames(s[:n])
	last, layer := "", ""
	for {
		f, more := frames.Next()
		if f.File != "" && !isPassage(f.Function) {
			last = fmt.Sprintf("%s:%d", short(f.File), f.Line)
			if !inside(f) {
				return last
			}
			if layer == "" && where(f) == outside {
				layer = last
			}
		}
		if !more {
			return cmp.Or(layer, last)
		}
	}
}

// isPassage reports whether a function only passes a call on, such as fmt's
// that print a tensor.
func isPassage(function string) bool {
	for _, p := range []string{"runtime.", "fmt.", "log.", "log/slog.", "reflect.", "sync."} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}

// inside reports whether a frame belongs to the framework rather than to the
// program that uses it.
func inside(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	rest, ok := strings.CutPrefix(f.File, root)
	return ok && !strings.HasPrefix(rest, "examples/") && !strings.HasPrefix(rest, "cmd/") && !strings.HasPrefix(rest, "bench/") && !strings.HasPrefix(rest, "docs/")
}

func short(file string) string {
	dir, base := filepath.Split(filepath.ToSlash(file))
	return filepath.Base(dir) + "/" + base
}
