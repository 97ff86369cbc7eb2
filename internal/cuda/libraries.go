//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"
	"sync"
)

// libraries are a device's handles of NVIDIA's libraries, nil before their first use.
type libraries struct {
	blas   *blas
	lt     *lt
	dnn    *dnn
	fft    *fft
	solver *solver
}

// loaded is a library of the process: it is found once, whatever the number of cards.
type loaded[L any] struct {
	once sync.Once
	lib  *L
	err  error
}

var (
	loadedBLAS   loaded[blasLibrary]
	loadedBLASLt loaded[ltLibrary]
	loadedDNN    loaded[dnnLibrary]
	loadedNVML   loaded[nvml]
	loadedFFT    loaded[fftLibrary]
	loadedSolver loaded[solverLibrary]
)

// get returns the library, which find has found, or why it has not.
func (l *loaded[L]) get(find func() (*L, error)) (*L, error) {
	l.once.Do(func() {
		if l.lib, l.err = find(); l.err != nil {
			l.lib = nil
		}
	})
	return l.lib, l.err
}

// inUse are the libraries that a device has started to use.
var inUse struct {
	sync.Mutex
	names []string
}

func nowInUse(name string) {
	inUse.Lock()
	defer inUse.Unlock()
	if !slices.Contains(inUse.names, name) {
		inUse.names = append(inUse.names, name)
	}
}

// librariesFound lists NVIDIA's libraries that are found, whether or not something
// has used them yet.
func librariesFound(drv *driver) []Library {
	var l []Library
	if b, err := loadBLAS(drv); err == nil {
		l = append(l, Library{libBLAS.Name, b.path, "batches of matrix products"})
	}
	if b, err := loadBLASLt(drv); err == nil {
		l = append(l, Library{libBLASLt.Name, b.path, "single matrix products, with bias and activation"})
	}
	if n, err := loadDNN(drv); err == nil {
		l = append(l, Library{libDNN.Name, n.path, "convolutions, long attention"})
	}
	if s, err := loadSolver(drv); err == nil {
		l = append(l, Library{libSolver.Name, s.path, "factorizations of large matrices"})
	}
	if f, err := loadFFT(drv); err == nil {
		l = append(l, Library{libFFT.Name, f.path, "Fourier transforms"})
	}
	if n, err := loadNVML(); err == nil {
		l = append(l, Library{libNVML.Name, n.path, "utilization, temperature and power"})
	}
	return l
}
