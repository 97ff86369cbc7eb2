//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math/bits"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// ltLibrary is cuBLASLt: products whose algorithm is chosen once, with bias and
// activation in one kernel.
type ltLibrary struct {
	path                                string
	create, matmul, heuristic           uintptr
	newDesc, setDesc, freeDesc          uintptr
	newLayout, freeLayout               uintptr
	newPreference, setPreference, forgo uintptr
}

// loadBLASLt finds cuBLASLt. It counts as a part of cuBLAS, with which it is
// switched off.
func loadBLASLt(drv *driver) (*ltLibrary, error) {
	return loadedBLASLt.get(func() (*ltLibrary, error) { return findBLASLt(drv.version / 1000) })
}

func findBLASLt(major int) (*ltLibrary, error) {
	if err := libBLAS.Off(); err != nil {
		return nil, err
	}
	h, err := libBLASLt.open(major)
	if err != nil {
		return nil, err
	}
	l := &ltLibrary{}
	err = h.Symbols(map[string]*uintptr{
		"cublasLtCreate": &l.create, "cublasLtMatmul": &l.matmul, "cublasLtMatmulAlgoGetHeuristic": &l.heuristic,
		"cublasLtMatmulDescCreate": &l.newDesc, "cublasLtMatmulDescSetAttribute": &l.setDesc, "cublasLtMatmulDescDestroy": &l.freeDesc,
		"cublasLtMatrixLayoutCreate": &l.newLayout, "cublasLtMatrixLayoutDestroy": &l.freeLayout,
		"cublasLtMatmulPreferenceCreate": &l.newPreference, "cublasLtMatmulPreferenceSetAttribute": &l.setPreference,
		"cublasLtMatmulPreferenceDestroy": &l.forgo,
	}, nil)
	l.path = h.Path()
	return l, err
}

// cuBLASLt's numbers.
const (
	ltTransA, ltTransB, ltEpilogue, ltBias = 3, 4, 7, 8 // attributes of a product
	ltWorkspace, ltReduction, ltAlignment  = 1, 3, 5    // preferences; alignment of a, and then b, c, d
	ltPlain, ltAddBias, ltGelu             = 1, 4, 32   // epilogues

	// Parts of long sums are added in place or in the type they are computed in,
	// never rounded to half precision.
	ltReductions = 1 | 2
)

// ltActivation returns what cuBLASLt calls an activation, 0 if it has none. Its gelu
// is the one with tanh, in the precision of float32. Its relu is not used: some of its
// kernels make 0 of NaN.
func ltActivation(t dtype.DType, act op.ID) uint32 {
	if act == op.GeluTanh && t != dtype.Float64 {
		return ltGelu
	}
	return 0
}

// ltWorkspaceMax is what an algorithm may use: what NVIDIA recommends for the
// newest cards. Only as much as the chosen ones need is allocated.
const ltWorkspaceMax = 32 << 20

// ltKey is all that the choice of an algorithm depends on.
type ltKey struct {
	t                               dtype.DType
	tf32, transA, transB            bool
	m, n, k, lda, ldb               int
	alignA, alignB, alignC, aligned uintptr // aligned: of the bias
	epilogue                        uint32
	lean                            bool // without workspace
}

// ltPlan is a product that is ready to run.
type ltPlan struct {
	desc, a, b, c uintptr // column-major: a is our b
	algorithm     [8]uint64
	workspace     int
	bias          uintptr // that desc points to
	none          bool    // cuBLASLt has no algorithm for it
	tooLarge      bool    // there was no room for the workspace
}

// ltResult is cublasLtMatmulHeuristicResult_t.
type ltResult struct {
	algorithm [8]uint64
	workspace uint64
	state     int32
	waves     float32
	_         [4]int32
}

// lt is a device's handle of cuBLASLt with its plans.
type lt struct {
	lib         *ltLibrary
	handle      uintptr
	plans       map[ltKey]*ltPlan
	unavailable bool

	// What calls point to.
	word   uint64
	out    uintptr
	count  int32
	result ltResult
}

// ltPlansMax bounds the plans of a program whose shapes always change.
const ltPlansMax = 1024

// cublasLt returns the device's handle, or nil without cuBLASLt. Between begin and end.
func (d *Device) cublasLt() (*lt, error) {
	if d.dry() {
		return nil, errAgain
	}
	if d.libs.lt == nil {
		if d.capturing() {
			return nil, d.again(func() error { _, err := d.cublasLt(); return err })
		}
		l, err := d.newLt()
		if err != nil {
			return nil, err
		}
		d.libs.lt = l
	}
	if d.libs.lt.unavailable {
		return nil, nil
	}
	return d.libs.lt, nil
}

func (d *Device) newLt() (*lt, error) {
	l := &lt{plans: map[ltKey]*ltPlan{}}
	var err error
	if l.lib, err = loadBLASLt(d.card.drv); err != nil {
		l.unavailable = true
		return l, nil
	}
	if l.call(d, l.lib.create, uintptr(unsafe.Pointer(&l.out))) != 0 {
		if !d.work.pressed {
			return nil, notStarted(libBLASLt)
		}
		l.unavailable = true
		return l, nil
	}
	l.handle = l.out
	nowInUse(libBLASLt.Name)
	return l, nil
}

func (l *lt) call(d *Device, fn uintptr, args ...uintptr) int32 {
	d.c.fn = fn
	copy(d.c.a[:], args)
	return int32(d.c.do())
}

// alignment returns the largest power of 2 up to 256 that divides an address.
func alignment(addr uintptr) uintptr { return 1 << min(8, bits.TrailingZeros64(uint64(addr))) }

// gemm queues a single product with an epilogue. It reports false, and does
// nothing, where cuBLASLt has no algorithm.
func (l *lt) gemm(d *Device, b *blas, t dtype.DType, g *product, epilogue uint32) (bool, error) {
	key := ltKey{t: t, tf32: t == dtype.Float32 && tf32.Load(), transA: g.a.trans, transB: g.b.trans, m: g.m, n: g.n, k: g.k, lda: g.a.ld, ldb: g.b.ld,
		alignA: alignment(g.a.addr), alignB: alignment(g.b.addr), alignC: alignment(g.c), epilogue: epilogue}
	if epilogue&ltAddBias != 0 {
		key.aligned = alignment(g.bias)
	}
	p, err := l.planOf(d, key, g.bias)
	if err != nil {
		return false, err
	}
	work := uintptr(0)
	if p.workspace > 0 && !p.tooLarge {
		if work, err = d.workspace(p.workspace); err != nil && !d.refused(err) {
			return false, err
		}
		p.tooLarge = err != nil // from now on: to try everything each time would take longer
	}
	if p.tooLarge {
		key.lean = true
		if p, err = l.planOf(d, key, g.bias); err != nil {
			return false, err
		}
	}
	if p.none {
		return false, nil
	}
	if epilogue&ltAddBias != 0 && p.bias != g.bias {
		l.word = uint64(g.bias)
		if err := blasError("cublasLtMatmulDescSetAttribute", l.call(d, l.lib.setDesc, p.desc, ltBias, uintptr(unsafe.Pointer(&l.word)), 8)); err != nil {
			return false, err
		}
		p.bias = g.bias
	}
	one, zero := uintptr(unsafe.Pointer(&b.one32)), uintptr(unsafe.Pointer(&b.zero32))
	if t == dtype.Float64 {
		one, zero = uintptr(unsafe.Pointer(&b.one64)), uintptr(unsafe.Pointer(&b.zero64))
	}
	if err := d.library(libBLASLt.Name); err != nil {
		return false, err
	}
	d.c.fn = l.lib.matmul
	copy(d.c.a[:], []uintptr{l.handle, p.desc, one, g.b.addr, p.a, g.a.addr, p.b, zero, g.c, p.c, g.c, p.c,
		uintptr(unsafe.Pointer(&p.algorithm)), work, uintptr(p.workspace), d.opStream()})
	return true, blasError("cublasLtMatmul", int32(d.c.doWide()))
}

// planOf returns the plan of a product.
func (l *lt) planOf(d *Device, key ltKey, bias uintptr) (*ltPlan, error) {
	p := l.plans[key]
	if p == nil {
		if d.capturing() {
			return nil, l.planLater(d, key, bias)
		}
		if len(l.plans) == ltPlansMax {
			l.forget(d)
		}
		p = l.plan(d, key, bias)
		l.plans[key] = p
	}
	return p, nil
}

// planLater makes the plan when a capture has ended.
func (l *lt) planLater(d *Device, key ltKey, bias uintptr) error {
	return d.again(func() error { _, err := l.planOf(d, key, bias); return err })
}

// plan describes a product and asks for the best algorithm.
func (l *lt) plan(d *Device, k ltKey, bias uintptr) *ltPlan {
	p := &ltPlan{none: true}
	kind, compute, scale := blasTypes(k.t)
	made := func(create uintptr, to *uintptr, args ...uintptr) bool {
		if l.call(d, create, append([]uintptr{uintptr(unsafe.Pointer(&l.out))}, args...)...) != 0 {
			return false
		}
		*to = l.out
		return true
	}
	set := func(fn, of, attribute uintptr, value uint64, size uintptr) bool {
		l.word = value
		return l.call(d, fn, of, attribute, uintptr(unsafe.Pointer(&l.word)), size) == 0
	}
	layout := func(to *uintptr, rows, cols, ld int, trans bool) bool {
		if trans {
			rows, cols = cols, rows
		}
		return made(l.lib.newLayout, to, kind, uintptr(rows), uintptr(cols), uintptr(ld))
	}
	trans := func(x bool) uint64 {
		if x {
			return 1
		}
		return 0
	}
	lib := l.lib
	var preference uintptr
	room := uint64(ltWorkspaceMax)
	if k.lean {
		room = 0
	}
	// Row-major matrices are the transposes of column-major ones: cᵀ = bᵀ·aᵀ.
	ok := made(lib.newDesc, &p.desc, compute, scale) &&
		set(lib.setDesc, p.desc, ltTransA, trans(k.transB), 4) && set(lib.setDesc, p.desc, ltTransB, trans(k.transA), 4) &&
		set(lib.setDesc, p.desc, ltEpilogue, uint64(k.epilogue), 4) &&
		layout(&p.a, k.n, k.k, k.ldb, k.transB) && layout(&p.b, k.k, k.m, k.lda, k.transA) && layout(&p.c, k.n, k.m, k.n, false) &&
		made(lib.newPreference, &preference) && set(lib.setPreference, preference, ltWorkspace, room, 8) &&
		set(lib.setPreference, preference, ltReduction, ltReductions, 4)
	if ok && k.epilogue&ltAddBias != 0 {
		ok = set(lib.setDesc, p.desc, ltBias, uint64(bias), 8)
		p.bias = bias
	}
	for i, a := range []uintptr{k.alignB, k.alignA, k.alignC, k.alignC} {
		ok = ok && set(lib.setPreference, preference, uintptr(ltAlignment+i), uint64(a), 4)
	}
	if ok && l.call(d, lib.heuristic, l.handle, p.desc, p.a, p.b, p.c, p.c, preference, 1, uintptr(unsafe.Pointer(&l.result)), uintptr(unsafe.Pointer(&l.count))) == 0 &&
		l.count > 0 && l.result.state == 0 {
		p.none, p.algorithm, p.workspace = false, l.result.algorithm, int(l.result.workspace)
	}
	if preference != 0 {
		l.call(d, lib.forgo, preference)
	}
	if p.none {
		p.free(l, d)
	}
	return p
}

// free destroys the plan's descriptors.
func (p *ltPlan) free(l *lt, d *Device) {
	if p.desc != 0 {
		l.call(d, l.lib.freeDesc, p.desc)
	}
	for _, x := range []uintptr{p.a, p.b, p.c} {
		if x != 0 {
			l.call(d, l.lib.freeLayout, x)
		}
	}
	p.desc, p.a, p.b, p.c = 0, 0, 0, 0
}

func (l *lt) forget(d *Device) {
	for _, p := range l.plans {
		p.free(l, d)
	}
	clear(l.plans)
}
