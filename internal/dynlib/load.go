//go:build (linux || darwin) && (amd64 || arm64) && !nocuda

package dynlib

import (
	"errors"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

func load(path string, global bool) (*Handle, error) {
	mode := purego.RTLD_NOW | purego.RTLD_LOCAL
	if global {
		mode = purego.RTLD_NOW | purego.RTLD_GLOBAL
	}
	h, err := purego.Dlopen(path, mode)
	if err != nil {
		text := strings.TrimSpace(err.Error())
		if !strings.Contains(text, path) {
			text = path + ": " + text
		}
		return nil, errors.New(text)
	}
	return &Handle{path: path, handle: h, bare: !filepath.IsAbs(path)}, nil
}

func symbol(handle uintptr, name string) uintptr {
	p, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return p
}

func register(f any, address uintptr) { purego.RegisterFunc(f, address) }

// fileOf returns the file in which the function at an address lies, "" if that cannot
// be known.
func fileOf(address uintptr) string {
	dladdr, err := purego.Dlsym(purego.RTLD_DEFAULT, "dladdr")
	if err != nil {
		return ""
	}
	var info struct {
		file   *byte
		base   uintptr
		symbol *byte
		start  uintptr
	}
	if ok, _, _ := purego.SyscallN(dladdr, address, uintptr(unsafe.Pointer(&info))); ok == 0 || info.file == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(info.file), n)) != 0 {
		n++
	}
	file := string(unsafe.Slice(info.file, n))
	if real, err := filepath.EvalSymlinks(file); err == nil { // the name tells the version
		file = real
	}
	if absolute, err := filepath.Abs(file); err == nil {
		return absolute
	}
	return file
}
