//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ebitengine/purego"
)

// Library is a file of NVIDIA's that does a part of the work.
type Library struct {
	Name   string // "cuBLAS"
	Path   string // the file, as the loader found it
	Serves string // what it is used for
}

// library says how one of NVIDIA's libraries is found.
type library struct {
	name    string   // as people call it
	env     string   // a path, or "off"
	sonames []string // newest first
	wheels  []string // folders below site-packages/nvidia
}

var (
	libCUDA   = library{"the CUDA driver", "LOCUS_CUDA", []string{"libcuda.so.1"}, nil}
	libNVML   = library{"NVML", "LOCUS_NVML", []string{"libnvidia-ml.so.1"}, nil}
	libBLASLt = library{"cuBLASLt", "LOCUS_CUBLASLT", []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, []string{"cu13/lib", "cublas/lib"}}
	libBLAS   = library{"cuBLAS", "LOCUS_CUBLAS", []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}, []string{"cu13/lib", "cublas/lib"}}
	libNVRTC  = library{"NVRTC", "", []string{"libnvrtc.so.13", "libnvrtc.so.12"}, []string{"cu13/lib", "cuda_nvrtc/lib"}}
	libDNN    = library{"cuDNN", "LOCUS_CUDNN", []string{"libcudnn.so.9"}, []string{"cudnn/lib"}}
)

var errSwitchedOff = errors.New("switched off")

// open loads the library and gives its handle and file. major is the CUDA
// version of the driver, whose libraries are tried first (0: in the given
// order). The error lists every path that was tried and why each failed.
// Libraries are never closed: their code may have threads running.
func (l library) open(major int) (uintptr, string, error) {
	override := os.Getenv(l.env)
	if err := l.off(); err != nil {
		return 0, "", err
	}
	candidates := l.candidates(major)
	if override != "" {
		candidates = []string{override} // the one that was asked for, or none
	}
	var errs []error
	for _, path := range candidates {
		h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err == nil {
			return h, loadedFrom(path), nil
		}
		errs = append(errs, errors.New(strings.TrimSpace(err.Error())))
	}
	return 0, "", fmt.Errorf("%s was not found; tried, in this order:\n%w", l.name, errors.Join(errs...))
}

// off is the error of a library that the environment switches off.
func (l library) off() error {
	if v := os.Getenv(l.env); strings.EqualFold(v, "off") || v == "0" {
		return fmt.Errorf("%s: %w by %s=%s", l.name, errSwitchedOff, l.env, v)
	}
	return nil
}

func (l library) candidates(major int) []string {
	names := slices.Clone(l.sonames)
	if want := fmt.Sprintf(".so.%d", major); major > 0 {
		slices.SortStableFunc(names, func(a, b string) int {
			switch x, y := strings.HasSuffix(a, want), strings.HasSuffix(b, want); {
			case x && !y:
				return -1
			case y && !x:
				return 1
			}
			return 0
		})
	}
	paths := slices.Clone(names)
	add := func(pattern string) {
		for _, n := range names {
			found, _ := filepath.Glob(filepath.Join(pattern, n))
			slices.Reverse(found) // newest first where versions are in the path
			for _, f := range found {
				if !strings.Contains(f, "/stubs/") && !slices.Contains(paths, f) {
					paths = append(paths, f)
				}
			}
		}
	}
	if l.wheels == nil { // part of the driver
		add("/usr/lib/wsl/lib")
		add("/usr/local/nvidia/lib64")
	}
	for _, root := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda*"} {
		if root != "" {
			add(root + "/lib64")
			add(root + "/targets/*/lib")
			add(root + "/lib")
		}
	}
	if conda := os.Getenv("CONDA_PREFIX"); conda != "" {
		add(conda + "/lib")
	}
	for _, w := range l.wheels {
		if venv := os.Getenv("VIRTUAL_ENV"); venv != "" {
			add(venv + "/lib/python3*/site-packages/nvidia/" + w)
		}
		add("/usr/lib/python3*/site-packages/nvidia/" + w)
		add("/usr/lib/python3/dist-packages/nvidia/" + w)
		add("/usr/local/lib/python3*/*-packages/nvidia/" + w)
	}
	switch runtime.GOARCH {
	case "amd64":
		add("/usr/lib/x86_64-linux-gnu")
	case "arm64":
		add("/usr/lib/aarch64-linux-gnu")
	}
	add("/usr/lib64")
	return paths
}

// loadedFrom finds the file behind a soname in the process's memory map.
func loadedFrom(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return path
	}
	defer f.Close()
	stem := strings.SplitN(filepath.Base(path), ".so", 2)[0] + ".so"
	for s := bufio.NewScanner(f); s.Scan(); {
		if i := strings.IndexByte(s.Text(), '/'); i >= 0 && strings.HasPrefix(filepath.Base(s.Text()[i:]), stem) {
			return s.Text()[i:]
		}
	}
	return path
}

// symbols looks several functions up. An optional one that is missing stays 0.
func symbols(h uintptr, from string, required, optional map[string]*uintptr) error {
	var missing []string
	for name, p := range required {
		f, err := purego.Dlsym(h, name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		*p = f
	}
	for name, p := range optional {
		*p, _ = purego.Dlsym(h, name)
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%s has no function %s: it is too old or not the library it should be", from, strings.Join(missing, ", "))
	}
	return nil
}
