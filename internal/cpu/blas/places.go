//go:build (linux || darwin) && (amd64 || arm64) && !nocuda

package blas

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A kind of library and where it usually is.
type kind struct {
	names   []string // for the system's loader
	files   []string // patterns of file names in folders
	folders []string // patterns of folders that only this kind uses
	wheels  []string // folders below site-packages
}

var openBLAS, mkl = kinds(runtime.GOOS)

func kinds(system string) (openBLAS, mkl kind) {
	if system == "darwin" {
		openBLAS = kind{
			names:   []string{"libopenblas.0.dylib", "libopenblas.dylib"},
			files:   []string{"libopenblas.dylib", "libopenblas.0.dylib", "libscipy_openblas*.dylib"},
			folders: []string{"/opt/homebrew/opt/openblas/lib", "/usr/local/opt/openblas/lib", "/opt/local/lib"},
		}
		mkl = kind{names: []string{"libmkl_rt.2.dylib", "libmkl_rt.dylib"}, files: []string{"libmkl_rt*.dylib"}}
	} else {
		openBLAS = kind{
			names: []string{"libopenblas.so.0", "libopenblas.so", "libopenblas64_.so.0", "libopenblas64.so.0"},
			files: []string{"libopenblas*.so.0", "libopenblas*.so", "libscipy_openblas*.so"},
		}
		mkl = kind{names: []string{"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}, files: []string{"libmkl_rt.so*"}}
	}
	openBLAS.wheels = []string{"scipy_openblas32/lib", "scipy_openblas64/lib", "numpy.libs", "numpy/.dylibs", "scipy.libs", "scipy/.dylibs"}
	mkl.folders = []string{"/opt/intel/oneapi/mkl/latest/lib", "/opt/intel/oneapi/mkl/latest/lib/intel64", "/opt/intel/mkl/lib/intel64"}
	if root := os.Getenv("MKLROOT"); root != "" {
		mkl.folders = append([]string{filepath.Join(root, "lib"), filepath.Join(root, "lib/intel64")}, mkl.folders...)
	}
	return openBLAS, mkl
}

// places lists what to try: the names that the system's loader knows, then
// files in the folders of vendors, of conda and of Python's packages.
func places(k kind) []string {
	paths := slices.Clone(k.names)
	folders := slices.Clone(k.folders)
	if conda := os.Getenv("CONDA_PREFIX"); conda != "" {
		folders = append(folders, filepath.Join(conda, "lib"))
	}
	if venv := os.Getenv("VIRTUAL_ENV"); venv != "" {
		folders = append(folders, filepath.Join(venv, "lib"))
		for _, w := range k.wheels {
			folders = append(folders, filepath.Join(venv, "lib/python3*/site-packages", w))
		}
	}
	for _, w := range k.wheels {
		folders = append(folders, filepath.Join("/usr/local/lib/python3*/*-packages", w), filepath.Join("/usr/lib/python3*/*-packages", w))
	}
	for _, folder := range folders {
		for _, file := range k.files {
			found, _ := filepath.Glob(filepath.Join(folder, file))
			for _, f := range found {
				if !slices.Contains(paths, f) {
					paths = append(paths, f)
				}
			}
		}
	}
	return paths
}

// fileOf gives the file in which the function at an address lies, or else the
// name under which it was asked for.
func fileOf(address uintptr, name string) string {
	dladdr, err := purego.Dlsym(purego.RTLD_DEFAULT, "dladdr")
	if err != nil {
		return name
	}
	var info struct {
		file   *byte
		base   uintptr
		symbol *byte
		start  uintptr
	}
	if ok, _, _ := purego.SyscallN(dladdr, address, uintptr(unsafe.Pointer(&info))); ok == 0 || info.file == nil {
		return name
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(info.file), n)) != 0 {
		n++
	}
	file := string(unsafe.Slice(info.file, n))
	if absolute, err := filepath.Abs(file); err == nil {
		return absolute
	}
	return file
}
