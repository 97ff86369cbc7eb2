//go:build linux || darwin

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"unsafe"

	"github.com/locusml/locus/internal/dynlib"
)

// nvrtc is NVIDIA's compiler as a library.
type nvrtc struct {
	find    dynlib.Library
	want    string // the version that the PTX is made with: "11.8.89"
	another bool   // a library of another version will do

	create           func(p *uintptr, src, name string, n int32, headers, includes unsafe.Pointer) int32
	compileProgram   func(p uintptr, n int32, opts **byte) int32
	ptxSize, logSize func(p uintptr, n *uintptr) int32
	ptx, log         func(p uintptr, b *byte) int32
}

// open loads the library once. It refuses one of another version than the pinned one,
// because the same sources must always make the same PTX.
func (n *nvrtc) open() error {
	if n.create != nil {
		return nil
	}
	h, err := n.find.Open()
	if err != nil {
		return err
	}
	if err := h.Functions(map[string]any{"nvrtcCreateProgram": &n.create, "nvrtcCompileProgram": &n.compileProgram,
		"nvrtcGetPTXSize": &n.ptxSize, "nvrtcGetPTX": &n.ptx, "nvrtcGetProgramLogSize": &n.logSize, "nvrtcGetProgramLog": &n.log}); err != nil {
		return err
	}
	trial, err := n.compile("version", `extern "C" __global__ void k() {}`)
	if err == nil {
		err = n.check(h.Path(), versionOf(trial))
	}
	if err != nil {
		n.create = nil
	}
	return err
}

// check compares the version of the library at path with the pinned one.
func (n *nvrtc) check(path, version string) error {
	switch {
	case version == n.want:
		return nil
	case n.another:
		fmt.Fprintf(os.Stderr, "gen: %s is version %s, not %s: its PTX is for trying things out, not for a commit\n", path, version, n.want)
		return nil
	}
	return fmt.Errorf("%s is NVRTC %q; the PTX is made with %s, so that everybody's is the same: %s, or try this one with -another-nvrtc", path, version, n.want, n.find.Remedy)
}

var versionLine = regexp.MustCompile(`(?m)^// Cuda compilation tools, release .*, V([0-9.]+)$`)

// versionOf returns the version of the compiler that wrote ptx, which says so at its
// top. nvrtcVersion would leave out the last number.
func versionOf(ptx string) string {
	m := versionLine.FindStringSubmatch(ptx)
	if m == nil {
		return ""
	}
	return m[1]
}

func (n *nvrtc) compile(name, src string, opts ...string) (string, error) {
	var p uintptr
	if rc := n.create(&p, src, name+".cu", 0, nil, nil); rc != 0 {
		return "", fmt.Errorf("nvrtcCreateProgram: %d", rc)
	}
	args := make([]*byte, len(opts)+1)
	for i, o := range opts {
		args[i] = &append([]byte(o), 0)[0]
	}
	rc := n.compileProgram(p, int32(len(opts)), &args[0])
	var size uintptr
	n.logSize(p, &size)
	log := make([]byte, size+1)
	n.log(p, &log[0])
	if text := strings.TrimRight(string(log), "\x00\n"); text != "" {
		fmt.Fprintln(os.Stderr, tail(text))
	}
	if rc != 0 {
		return "", fmt.Errorf("nvrtc error %d", rc)
	}
	n.ptxSize(p, &size)
	out := make([]byte, size)
	n.ptx(p, &out[0])
	return string(out[:size-1]), nil
}
