// Package dynlib finds and loads shared libraries without cgo: NVIDIA's, BLAS
// libraries, and whatever else a program may use if it is there.
//
// A [Library] says what a library is called and where it may be; its Open tries one
// candidate after the other and reports, if none will do, each with the reason. What it
// returns looks symbols up. Libraries are never closed: their code may have
// threads running.
//
// Builds that cannot load libraries (see [ErrBuild]) have the same functions, all of
// which report that.
package dynlib

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Library says how a library is found and loaded.
type Library struct {
	Name    string   // as people call it: "cuBLAS"
	Env     string   // the variable that names the one file to load, or is "off"; "" for none
	Names   []string // what the system's loader is asked for, best first: "libcublas.so.13"
	Files   []string // patterns of the file's name in Folders, best first; nil: Names
	Folders []string // patterns of further folders, in the order of trying
	Remedy  string   // what to do if it is not found: "install it with …"; "" for nothing
	// Global makes its symbols those of the whole process. Libraries that load parts of
	// themselves later and expect to be found by them need it: Open MPI, cuDNN.
	Global bool
}

// ErrOff is the error of a library that the environment switches off.
var ErrOff = errors.New("switched off")

// IsOff reports whether the value of a variable switches a library off.
func IsOff(value string) bool { return strings.EqualFold(value, "off") || value == "0" }

// Off returns an [ErrOff] if the environment switches the library off, else nil.
func (l *Library) Off() error {
	if l.Env == "" {
		return nil
	}
	if v := os.Getenv(l.Env); IsOff(v) {
		return fmt.Errorf("%s: %w by %s=%s", l.Name, ErrOff, l.Env, v)
	}
	return nil
}

// Open loads the library. The file that the environment names is the only candidate
// then; else it is the first of Candidates that can be loaded. The error lists
// everything that was tried and why each failed.
func (l *Library) Open() (*Handle, error) {
	if err := l.Off(); err != nil {
		return nil, err
	}
	if l.Env != "" {
		if path := os.Getenv(l.Env); path != "" {
			h, err := First([]string{path}, l.Global, nil)
			if err != nil {
				return nil, fmt.Errorf("%s was not found where %s says: %w", l.Name, l.Env, err)
			}
			return h, nil
		}
	}
	h, err := First(l.Candidates(), l.Global, nil)
	if err != nil {
		remedy := ""
		if l.Remedy != "" {
			remedy = "; " + l.Remedy
		}
		return nil, fmt.Errorf("%s was not found%s; tried, in this order:\n%w", l.Name, remedy, err)
	}
	return h, nil
}

// Candidates lists what Open tries: the names for the system's loader, then the files
// that are in the folders. Where a pattern stands for several folders, those with the
// highest version in their names come first.
func (l *Library) Candidates() []string {
	paths := slices.Clone(l.Names)
	files := l.Files
	if files == nil {
		files = l.Names
	}
	for _, folder := range l.Folders {
		for _, file := range files {
			found, _ := filepath.Glob(filepath.Join(folder, file)) // the patterns are right
			slices.SortStableFunc(found, func(a, b string) int { return byVersion(filepath.Dir(b), filepath.Dir(a)) })
			for _, f := range found {
				// Stubs are there to be linked with: they have no code.
				if !strings.Contains(filepath.ToSlash(f), "/stubs/") && !slices.Contains(paths, f) {
					paths = append(paths, f)
				}
			}
		}
	}
	return paths
}

// First loads the first of the candidates, paths or names for the system's loader, that
// can be loaded and that accept, unless it is nil, does not refuse. The error joins
// the reasons of all.
func First(candidates []string, global bool, accept func(*Handle) error) (*Handle, error) {
	var errs []error
	for _, path := range candidates {
		h, err := load(path, global)
		if err == nil && accept != nil {
			err = accept(h)
		}
		if err == nil {
			return h, nil
		}
		errs = append(errs, err)
		if errors.Is(err, ErrBuild) {
			break
		}
	}
	if len(errs) == 0 {
		return nil, errors.New("there is nothing to try")
	}
	return nil, errors.Join(errs...)
}

// ErrBuild is the error of everything in builds that load no libraries.
var ErrBuild = errors.New("this program was built without support for loading libraries (it needs Linux or macOS on amd64 or arm64, and no build tag nocuda)")

// Handle is a library that has been loaded.
type Handle struct {
	path   string
	handle uintptr
	bare   bool // path is what the loader was asked for; the file it found is not known yet
}

// Path returns the file. A name or a relative path becomes the file that the system's
// loader chose when a first symbol is found.
func (h *Handle) Path() string { return h.path }

// Symbol returns the address of a symbol, 0 if there is none of that name.
func (h *Handle) Symbol(name string) uintptr {
	p := symbol(h.handle, name)
	if p != 0 && h.bare {
		h.bare = false
		if file := fileOf(p); file != "" {
			h.path = file
		}
	}
	return p
}

// Symbols looks several symbols up. An optional one that is missing stays 0; the error
// names all the others that are.
func (h *Handle) Symbols(required, optional map[string]*uintptr) error {
	var missing []string
	for name, p := range required {
		if *p = h.Symbol(name); *p == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%s has no function %s: it is too old or not the library it should be", h.path, strings.Join(missing, ", "))
	}
	for name, p := range optional {
		*p = h.Symbol(name)
	}
	return nil
}

// Functions looks C functions up, all of them required, and makes them the Go
// functions that the values point to: see RegisterFunc of package purego.
func (h *Handle) Functions(functions map[string]any) error {
	addresses := make(map[string]*uintptr, len(functions))
	for name := range functions {
		addresses[name] = new(uintptr)
	}
	if err := h.Symbols(addresses, nil); err != nil {
		return err
	}
	for name, f := range functions {
		register(f, *addresses[name])
	}
	return nil
}
