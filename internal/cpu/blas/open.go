//go:build (linux || darwin) && (amd64 || arm64) && !nocuda

package blas

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/internal/dynlib"
)

// Open loads a library: "openblas" or "mkl" from the usual places, "" the first
// of the two that is there, anything else as a file or a name for the system's
// loader. The error says what was tried and what to do. Libraries are never
// closed: their code may have threads running.
func Open(name string) (*Library, error) {
	candidates := []string{name}
	openBLAS, mkl := kinds(runtime.GOOS)
	switch {
	case strings.EqualFold(name, "openblas"):
		candidates = openBLAS.Candidates()
	case strings.EqualFold(name, "mkl"):
		candidates = mkl.Candidates()
	case name == "":
		candidates = append(openBLAS.Candidates(), mkl.Candidates()...)
	case strings.ContainsRune(name, filepath.Separator):
		if _, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("there is no BLAS library: %w; give the path of libopenblas.so or libmkl_rt.so, or one of the names openblas and mkl", err)
		}
	}
	var l *Library
	_, err := dynlib.First(candidates, false, func(h *dynlib.Handle) (err error) {
		l, err = use(h)
		return err
	})
	switch {
	case err == nil:
		return l, nil
	case len(candidates) == 1:
		return nil, fmt.Errorf("%w; give the path of libopenblas.so or libmkl_rt.so, or one of the names openblas and mkl", err)
	}
	return nil, fmt.Errorf("no BLAS library was found; install one (%s) or give the path of the file; tried, in this order:\n%w", howToInstall(), err)
}

func howToInstall() string {
	if runtime.GOOS == "darwin" {
		return "brew install openblas, or pip install scipy-openblas32"
	}
	return "Debian and Ubuntu: apt install libopenblas0-pthread; Fedora: dnf install openblas-threads; pip install scipy-openblas32 or mkl"
}

// use finds a library's functions, tells it to leave threads to Locus, and tries it.
func use(h *dynlib.Handle) (*Library, error) {
	f := functions(h)
	if f == nil {
		return nil, fmt.Errorf("%s is not a BLAS library with a C interface: it has no function cblas_sgemm under any of its usual names", h.Path())
	}
	l := &Library{Name: "BLAS", Path: h.Path()}
	around := f.prepare(l)
	l.sgemm, l.dgemm = product[float32](f.sgemm, f.wide, around), product[float64](f.dgemm, f.wide, around)
	if err := l.try(); err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", h.Path(), err)
	}
	return l, nil
}

// found is what a library offers.
type found struct {
	handle         *dynlib.Handle
	prefix, suffix string // around the names of its functions
	wide           bool   // integers have 64 bits
	sgemm, dgemm   uintptr
}

// functions finds the products under the names that are in use: plain ones;
// with a suffix where integers have 64 bits (64_ by convention, _64 in MKL); and
// with a prefix in the wheels of NumPy and SciPy.
func functions(h *dynlib.Handle) *found {
	for _, prefix := range []string{"", "scipy_"} {
		for _, suffix := range []string{"", "64_", "_64"} {
			s, d := h.Symbol(prefix+"cblas_sgemm"+suffix), h.Symbol(prefix+"cblas_dgemm"+suffix)
			if s != 0 && d != 0 {
				return &found{handle: h, prefix: prefix, suffix: suffix, wide: suffix != "", sgemm: s, dgemm: d}
			}
		}
	}
	return nil
}

// symbol is the address of a function, 0 if there is none.
func (f *found) symbol(name string) uintptr {
	if p := f.handle.Symbol(f.prefix + name + f.suffix); p != 0 {
		return p
	}
	return f.handle.Symbol(name)
}

// call calls a function of one optional integer argument, if there is one of that
// name; else it returns 0.
func (f *found) call(name string, args ...uintptr) uintptr {
	p := f.symbol(name)
	if p == 0 {
		return 0
	}
	r, _, _ := purego.SyscallN(p, args...)
	return r & math.MaxInt32 // an int; the rest of the register may hold anything
}

// text calls a function that returns a string; it returns "" if there is none of that
// name.
func (f *found) text(name string) string {
	p := f.symbol(name)
	if p == 0 {
		return ""
	}
	var get func() string
	purego.RegisterFunc(&get, p)
	return get()
}

// prepare finds out which library it is and tells it to compute on the calling
// thread. What it returns runs around every product.
func (f *found) prepare(l *Library) (around func(product func())) {
	if config := f.text("openblas_get_config"); config != "" {
		return f.prepareOpenBLAS(l, config)
	}
	if f.symbol("MKL_Set_Num_Threads") != 0 {
		f.prepareMKL(l)
		return nil
	}
	return oneAtATime()
}

func oneAtATime() func(product func()) {
	var mu sync.Mutex
	return func(product func()) {
		mu.Lock()
		defer mu.Unlock()
		product()
	}
}

// How OpenBLAS was built, as openblas_get_parallel tells.
const (
	openBLASThreads = 1
	openBLASOpenMP  = 2
)

func (f *found) prepareOpenBLAS(l *Library, config string) func(product func()) {
	words := strings.Fields(config)
	l.Name = "OpenBLAS"
	if len(words) > 1 && words[0] == "OpenBLAS" {
		l.Name += " " + words[1]
	}
	l.Kernels = f.text("openblas_get_corename")
	// Distributions build libraries with 64-bit integers under plain names.
	f.wide = f.wide || strings.Contains(config, "USE64BITINT")
	switch f.call("openblas_get_parallel") {
	case openBLASThreads:
		f.call("openblas_set_num_threads", 1)
		l.Divisible = true
		return nil
	case openBLASOpenMP:
		// OpenMP keeps the number for each thread of the system, and a goroutine
		// has one for itself only as long as it is locked to it.
		p := f.symbol("omp_set_num_threads")
		if p == 0 {
			return oneAtATime()
		}
		l.Divisible = true
		return func(product func()) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			purego.SyscallN(p, 1)
			product()
		}
	}
	// Built for one thread, and perhaps without the locks around its buffers.
	return oneAtATime()
}

// Constants of mkl_service.h.
const (
	mklLP64       = 0
	mklSequential = 1
)

func (f *found) prepareMKL(l *Library) {
	if f.suffix == "" {
		f.call("MKL_Set_Interface_Layer", mklLP64)
	}
	// The layer comes first: without it the next call ends the process where
	// there is no OpenMP library.
	f.call("MKL_Set_Threading_Layer", mklSequential)
	f.call("MKL_Set_Num_Threads", 1)
	l.Name, l.Divisible = "MKL", true
	if p := f.symbol("MKL_Get_Version_String"); p != 0 {
		var get func(buf *byte, n int32)
		purego.RegisterFunc(&get, p)
		buf := make([]byte, 200)
		get(&buf[0], int32(len(buf)))
		text, _, _ := strings.Cut(string(buf), "\x00")
		if _, version, ok := strings.Cut(text, "Version "); ok && version != "" {
			l.Name += " " + strings.TrimSuffix(strings.Fields(version)[0], "-Product")
		}
	}
}

// Constants of cblas.h.
const (
	rowMajor  = 101
	noTrans   = 111
	transpose = 112
)

func trans(t bool) int32 {
	if t {
		return transpose
	}
	return noTrans
}

// product makes cblas_sgemm or cblas_dgemm a Go function, with integers of the
// right size: where arguments are packed on the stack, it matters.
func product[T float32 | float64](address uintptr, wide bool, around func(func())) gemm[T] {
	var call gemm[T]
	if wide {
		var f func(order, ta, tb int32, m, n, k int64, alpha T, a unsafe.Pointer, lda int64, b unsafe.Pointer, ldb int64, beta T, c unsafe.Pointer, ldc int64)
		purego.RegisterFunc(&f, address)
		call = func(ta, tb bool, m, n, k int, alpha T, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta T, c unsafe.Pointer, ldc int) {
			f(rowMajor, trans(ta), trans(tb), int64(m), int64(n), int64(k), alpha, a, int64(lda), b, int64(ldb), beta, c, int64(ldc))
		}
	} else {
		var f func(order, ta, tb, m, n, k int32, alpha T, a unsafe.Pointer, lda int32, b unsafe.Pointer, ldb int32, beta T, c unsafe.Pointer, ldc int32)
		purego.RegisterFunc(&f, address)
		call = func(ta, tb bool, m, n, k int, alpha T, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta T, c unsafe.Pointer, ldc int) {
			f(rowMajor, trans(ta), trans(tb), int32(m), int32(n), int32(k), alpha, a, int32(lda), b, int32(ldb), beta, c, int32(ldc))
		}
	}
	if around == nil {
		return call
	}
	return func(ta, tb bool, m, n, k int, alpha T, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta T, c unsafe.Pointer, ldc int) {
		around(func() { call(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) })
	}
}
