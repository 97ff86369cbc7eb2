//go:build (linux || darwin) && (amd64 || arm64) && !nocuda

package blas

import (
	"os"
	"path/filepath"

	"github.com/locusml/locus/internal/dynlib"
)

// kinds says how OpenBLAS and MKL are found: by the system's loader, then in the
// folders of vendors, of conda and of Python's packages.
func kinds(system string) (openBLAS, mkl dynlib.Library) {
	if system == "darwin" {
		openBLAS = dynlib.Library{
			Names:   []string{"libopenblas.0.dylib", "libopenblas.dylib"},
			Files:   []string{"libopenblas.dylib", "libopenblas.0.dylib", "libscipy_openblas*.dylib"},
			Folders: []string{"/opt/homebrew/opt/openblas/lib", "/usr/local/opt/openblas/lib", "/opt/local/lib"},
		}
		mkl = dynlib.Library{Names: []string{"libmkl_rt.2.dylib", "libmkl_rt.dylib"}, Files: []string{"libmkl_rt*.dylib"}}
	} else {
		openBLAS = dynlib.Library{
			Names: []string{"libopenblas.so.0", "libopenblas.so", "libopenblas64_.so.0", "libopenblas64.so.0"},
			Files: []string{"libopenblas*.so.0", "libopenblas*.so", "libscipy_openblas*.so"},
		}
		mkl = dynlib.Library{Names: []string{"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}, Files: []string{"libmkl_rt.so*"}}
	}
	openBLAS.Folders = append(openBLAS.Folders, dynlib.Wheels("scipy_openblas32/lib", "scipy_openblas64/lib", "numpy.libs", "numpy/.dylibs", "scipy.libs", "scipy/.dylibs")...)
	if root := os.Getenv("MKLROOT"); root != "" {
		mkl.Folders = []string{filepath.Join(root, "lib"), filepath.Join(root, "lib/intel64")}
	}
	mkl.Folders = append(mkl.Folders, "/opt/intel/oneapi/mkl/latest/lib", "/opt/intel/oneapi/mkl/latest/lib/intel64", "/opt/intel/mkl/lib/intel64")
	mkl.Folders = append(mkl.Folders, dynlib.Wheels()...)
	return openBLAS, mkl
}
