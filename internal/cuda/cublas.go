//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// blasLibrary is cuBLAS.
type blasLibrary struct {
	path                                 string
	create, setStream, gemm, gemmBatched uintptr
	setWorkspace                         uintptr // 0 if it is too old
}

// loadBLAS finds cuBLAS.
func loadBLAS(drv *driver) (*blasLibrary, error) {
	return loadedBLAS.get(func() (*blasLibrary, error) { return findBLAS(drv.version / 1000) })
}

func findBLAS(major int) (*blasLibrary, error) {
	if err := libBLAS.Off(); err != nil {
		return nil, err
	}
	// cuBLAS would look for it by itself, but only on the system's paths.
	_, _ = libBLASLt.open(major)
	h, err := libBLAS.open(major)
	if err != nil {
		return nil, err
	}
	b := &blasLibrary{}
	err = h.Symbols(map[string]*uintptr{"cublasCreate_v2": &b.create, "cublasSetStream_v2": &b.setStream,
		"cublasGemmEx": &b.gemm, "cublasGemmStridedBatchedEx": &b.gemmBatched},
		map[string]*uintptr{"cublasSetWorkspace_v2": &b.setWorkspace})
	b.path = h.Path()
	return b, err
}

// blas is a device's handle of cuBLAS, with what its calls point to.
type blas struct {
	lib         *blasLibrary
	handle      uintptr
	one32       float32
	zero32      float32
	one64       float64
	zero64      float64
	unavailable bool
}

// cuBLAS reports what went wrong by these numbers.
var blasResults = map[int32]string{1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH",
	11: "MAPPING_ERROR", 13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED"}

const blasNoMemory = 3

func blasError(name string, r int32) error {
	if r == 0 {
		return nil
	}
	err := fmt.Errorf("%s: CUBLAS_STATUS_%s (%d)", name, blasResults[r], r)
	if r == blasNoMemory {
		err = noMemory{err}
	}
	return err
}

// noMemory is an error of a library that means op.ErrOutOfMemory.
type noMemory struct{ error }

func (noMemory) Is(target error) bool { return target == op.ErrOutOfMemory }

// notStarted is the error of a library that does not start. The cause may be a lack of
// memory, which libraries report by many numbers, so memory is freed first; after that
// our own kernels serve, as they do for a library that is too old for the card.
func notStarted(l library) error {
	return noMemory{errors.New(l.Name + " does not start")}
}

// cublas returns the device's handle, or nil without cuBLAS. Between begin and end.
func (d *Device) cublas() (*blas, error) {
	if d.dry() {
		return nil, errAgain
	}
	if d.libs.blas == nil {
		if d.capturing() {
			return nil, d.again(func() error { _, err := d.cublas(); return err })
		}
		b, err := d.newBLAS()
		if err != nil {
			return nil, err
		}
		d.libs.blas = b
	}
	if d.libs.blas.unavailable {
		return nil, nil
	}
	return d.libs.blas, nil
}

func (d *Device) newBLAS() (*blas, error) {
	lib, err := loadBLAS(d.card.drv)
	if err != nil {
		return &blas{unavailable: true}, nil
	}
	return d.startBLAS(lib)
}

func (d *Device) startBLAS(lib *blasLibrary) (*blas, error) {
	b := &blas{lib: lib, one32: 1, one64: 1}
	d.c.fn, d.c.a[0] = lib.create, uintptr(unsafe.Pointer(&d.word))
	if int32(d.c.do()) != 0 {
		if !d.work.pressed {
			return nil, notStarted(libBLAS)
		}
		b.unavailable = true
		return b, nil
	}
	b.handle = d.word
	d.c.fn, d.c.a[0], d.c.a[1] = lib.setStream, b.handle, d.stream
	b.unavailable = int32(d.c.do()) != 0
	if !b.unavailable {
		nowInUse(libBLAS.Name)
	}
	return b, nil
}

// cuBLAS's numbers for element types, and for how it computes.
const (
	blas32F, blas64F, blas16F, blas16BF    = 0, 1, 2, 14
	computes32F, computes64F, computesTF32 = 68, 70, 77
	defaultAlgorithm                       = ^uintptr(0) // CUBLAS_GEMM_DEFAULT is -1
)

// gemm queues c = a·b for row-major matrices, by asking for the transposed
// product of column-major ones. A bias is what c holds already.
func (b *blas) gemm(d *Device, t dtype.DType, g *product) error {
	if err := d.library(libBLAS.Name); err != nil {
		return err
	}
	if d.capturing() {
		if err := d.rec.capture.lendBLAS(d, b); err != nil {
			return err
		}
	}
	kind, compute, _ := blasTypes(t)
	one, zero := uintptr(unsafe.Pointer(&b.one32)), uintptr(unsafe.Pointer(&b.zero32))
	if t == dtype.Float64 {
		one, zero = uintptr(unsafe.Pointer(&b.one64)), uintptr(unsafe.Pointer(&b.zero64))
	}
	if g.bias != 0 {
		zero = one
	}
	c := &d.c
	trans := func(x bool) uintptr {
		if x {
			return 1
		}
		return 0
	}
	if g.batch == 1 {
		c.fn = b.lib.gemm
		copy(c.a[:], []uintptr{b.handle, trans(g.b.trans), trans(g.a.trans), uintptr(g.n), uintptr(g.m), uintptr(g.k), one,
			g.b.addr, kind, uintptr(g.b.ld), g.a.addr, kind, uintptr(g.a.ld), zero, g.c, kind, uintptr(g.n), compute, defaultAlgorithm})
		return blasError("cublasGemmEx", int32(c.doWide()))
	}
	c.fn = b.lib.gemmBatched
	copy(c.a[:], []uintptr{b.handle, trans(g.b.trans), trans(g.a.trans), uintptr(g.n), uintptr(g.m), uintptr(g.k), one,
		g.b.addr, kind, uintptr(g.b.ld), uintptr(g.b.step), g.a.addr, kind, uintptr(g.a.ld), uintptr(g.a.step), zero,
		g.c, kind, uintptr(g.n), uintptr(g.m * g.n), uintptr(g.batch), compute, defaultAlgorithm})
	return blasError("cublasGemmStridedBatchedEx", int32(c.doWide()))
}
