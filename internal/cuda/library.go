//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/locusml/locus/internal/dynlib"
)

// Library is a file of NVIDIA's that does a part of the work.
type Library struct {
	Name   string // "cuBLAS"
	Path   string // the file, as the loader found it
	Serves string // what it is used for
}

// library says how one of NVIDIA's libraries is found. They are loaded with their
// symbols for all, because some of them load others that use these.
type library struct {
	dynlib.Library          // Names are sonames, newest first
	wheels         []string // folders below site-packages/nvidia; nil for parts of the driver
}

func nvidia(name, env string, sonames, wheels []string) library {
	return library{dynlib.Library{Name: name, Env: env, Names: sonames, Global: true}, wheels}
}

var (
	libCUDA   = nvidia("the CUDA driver", "LOCUS_CUDA", []string{"libcuda.so.1"}, nil)
	libNVML   = nvidia("NVML", "LOCUS_NVML", []string{"libnvidia-ml.so.1"}, nil)
	libBLASLt = nvidia("cuBLASLt", "LOCUS_CUBLASLT", []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, []string{"cu13/lib", "cublas/lib"})
	libBLAS   = nvidia("cuBLAS", "LOCUS_CUBLAS", []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}, []string{"cu13/lib", "cublas/lib"})
	libNVRTC  = nvidia("NVRTC", "", []string{"libnvrtc.so.13", "libnvrtc.so.12"}, []string{"cu13/lib", "cuda_nvrtc/lib"})
	libFFT    = nvidia("cuFFT", "LOCUS_CUFFT", []string{"libcufft.so.12", "libcufft.so.11", "libcufft.so.10"}, []string{"cu13/lib", "cufft/lib"})
	libSolver = nvidia("cuSOLVER", "LOCUS_CUSOLVER", []string{"libcusolver.so.12", "libcusolver.so.11"}, []string{"cu13/lib", "cusolver/lib"})
	libDNN    = nvidia("cuDNN", "LOCUS_CUDNN", []string{"libcudnn.so.9"}, []string{"cudnn/lib"})
)

// open loads the library. major is the CUDA version of the driver, whose libraries
// are tried first (0: in the given order).
func (l library) open(major int) (*dynlib.Handle, error) { return l.at(major).Open() }

// at returns the library with what depends on the driver and on the environment.
func (l library) at(major int) *dynlib.Library {
	l.Names, l.Folders = forMajor(l.Names, major), l.folders()
	return &l.Library
}

// forMajor puts the names that end with a version first.
func forMajor(names []string, major int) []string {
	if major == 0 {
		return names
	}
	want, ordered := fmt.Sprintf(".so.%d", major), []string(nil)
	for _, n := range names {
		if strings.HasSuffix(n, want) {
			ordered = append(ordered, n)
		}
	}
	for _, n := range names {
		if !slices.Contains(ordered, n) {
			ordered = append(ordered, n)
		}
	}
	return ordered
}

// folders lists where the driver, toolkits, conda, pip and distributions put NVIDIA's
// libraries.
func (l library) folders() []string {
	var folders []string
	if l.wheels == nil { // part of the driver
		folders = append(folders, "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64")
	}
	for _, root := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda*"} {
		if root != "" {
			folders = append(folders, root+"/lib64", root+"/targets/*/lib", root+"/lib")
		}
	}
	wheels := make([]string, len(l.wheels))
	for i, w := range l.wheels {
		wheels[i] = "nvidia/" + w
	}
	return slices.Concat(folders, dynlib.Wheels(wheels...), dynlib.System())
}
