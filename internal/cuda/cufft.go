//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.FFT] = (*Device).runFourier
	runners[op.RFFT] = (*Device).runFourier
	runners[op.IRFFT] = (*Device).runFourier
}

// fftLibrary is cuFFT.
type fftLibrary struct {
	path                                                   string
	create, setAuto, makeMany, setStream, setWork, destroy uintptr
	exec                                                   [2][3]uintptr // float32 and float64; complex to complex, real to complex, and back
}

// Places in fftLibrary's exec.
const (
	complexToComplex = iota
	realToComplex
	complexToReal
)

// loadFFT finds cuFFT. The number in its name is one less than CUDA's.
func loadFFT(drv *driver) (*fftLibrary, error) {
	return loadedFFT.get(func() (*fftLibrary, error) {
		if err := libFFT.Off(); err != nil {
			return nil, err
		}
		h, err := libFFT.open(drv.version/1000 - 1)
		if err != nil {
			return nil, err
		}
		l := &fftLibrary{path: h.Path()}
		err = h.Symbols(map[string]*uintptr{"cufftCreate": &l.create, "cufftSetAutoAllocation": &l.setAuto, "cufftMakePlanMany": &l.makeMany,
			"cufftSetStream": &l.setStream, "cufftSetWorkArea": &l.setWork, "cufftDestroy": &l.destroy,
			"cufftExecC2C": &l.exec[0][complexToComplex], "cufftExecR2C": &l.exec[0][realToComplex], "cufftExecC2R": &l.exec[0][complexToReal],
			"cufftExecZ2Z": &l.exec[1][complexToComplex], "cufftExecD2Z": &l.exec[1][realToComplex], "cufftExecZ2D": &l.exec[1][complexToReal]}, nil)
		return l, err
	})
}

// fftTypes are cuFFT's numbers of the kinds of transforms, in the order of exec.
var fftTypes = [2][3]uintptr{{0x29, 0x2a, 0x2c}, {0x69, 0x6a, 0x6c}}

// fftKey is what a plan is for: lines of n numbers, one after the other.
type fftKey struct {
	double, kind int
	n, lines     int
}

// fftPlan is a plan, and how much memory it works in.
type fftPlan struct {
	handle uintptr
	work   int
}

// fft is a device's use of cuFFT.
type fft struct {
	lib         *fftLibrary
	plans       map[fftKey]fftPlan
	refused     map[fftKey]bool // what cuFFT has no plan for
	n           int32           // what calls point to
	size        uintptr
	unavailable bool
}

// maxPlans is how many plans are kept. Each has tables of its own on the card.
const maxPlans = 64

var errDetour = errors.New("the library does not do it")

var fftResults = map[int32]string{1: "INVALID_PLAN", 2: "ALLOC_FAILED", 3: "INVALID_TYPE", 4: "INVALID_VALUE", 5: "INTERNAL_ERROR", 6: "EXEC_FAILED", 7: "SETUP_FAILED", 8: "INVALID_SIZE", 9: "UNALIGNED_DATA"}

func fftError(name string, r int32) error {
	if r == 0 {
		return nil
	}
	err := fmt.Errorf("%s: CUFFT_%s (%d)", name, fftResults[r], r)
	if r == 2 {
		return noMemory{err}
	}
	return err
}

// hasFFT reports whether cuFFT can be used.
func (d *Device) hasFFT() bool {
	d.mu.Lock()
	known := d.libs.fft
	d.mu.Unlock()
	if known != nil {
		return !known.unavailable
	}
	_, err := loadFFT(d.card.drv)
	return err == nil
}

// plan returns a plan for lines. Between begin and end.
func (d *Device) fftPlan(key fftKey) (*fft, fftPlan, error) {
	f := d.libs.fft
	if f == nil {
		lib, err := loadFFT(d.card.drv)
		if err != nil {
			return nil, fftPlan{}, errDetour
		}
		f = &fft{lib: lib, plans: map[fftKey]fftPlan{}, refused: map[fftKey]bool{}}
		d.libs.fft = f
		nowInUse(libFFT.Name)
	}
	if p, ok := f.plans[key]; ok {
		return f, p, nil
	}
	if f.unavailable || f.refused[key] {
		return nil, fftPlan{}, errDetour
	}
	if len(f.plans) >= maxPlans {
		for _, p := range f.plans {
			d.c.fn, d.c.a[0] = f.lib.destroy, p.handle
			d.c.do() // it waits for what uses the plan
		}
		clear(f.plans)
	}
	d.word = 0
	d.c.fn, d.c.a[0] = f.lib.create, uintptr(unsafe.Pointer(&d.word))
	if err := fftError("cufftCreate", int32(d.c.do())); err != nil {
		return nil, fftPlan{}, err
	}
	p := fftPlan{handle: d.word}
	err := d.makePlan(f, key, &p)
	if err == nil {
		f.plans[key] = p
		return f, p, nil
	}
	d.c.fn, d.c.a[0] = f.lib.destroy, p.handle
	d.c.do() // there is an error already
	if isExhausted(err) && !d.work.pressed {
		return nil, fftPlan{}, err
	}
	f.refused[key] = true
	return nil, fftPlan{}, errDetour
}

func (d *Device) makePlan(f *fft, key fftKey, p *fftPlan) error {
	d.c.fn, d.c.a[0], d.c.a[1] = f.lib.setAuto, p.handle, 0
	if err := fftError("cufftSetAutoAllocation", int32(d.c.do())); err != nil {
		return err
	}
	f.n, f.size = int32(key.n), 0
	d.c.fn = f.lib.makeMany
	// Without sizes of what lies around, lines follow each other.
	copy(d.c.a[:], []uintptr{p.handle, 1, uintptr(unsafe.Pointer(&f.n)), 0, 1, 0, 0, 1, 0, fftTypes[key.double][key.kind], uintptr(key.lines), uintptr(unsafe.Pointer(&f.size))})
	if err := fftError("cufftMakePlanMany", int32(d.c.doWide())); err != nil {
		return err
	}
	p.work = int(f.size)
	d.c.fn, d.c.a[0], d.c.a[1] = f.lib.setStream, p.handle, d.stream
	return fftError("cufftSetStream", int32(d.c.do()))
}

// fftLine is the longest line, and the most of them, that cuFFT is asked for.
const fftLine = 1 << 27

func (d *Device) runFourier(c *backend.Call) error {
	if d.capturing() { // a plan has tables on the card, and may be gone when a recording is replayed
		return fmt.Errorf("cuFFT does it, whose plans do not outlive a recording: %w", op.ErrUnsupported)
	}
	a, in := c.Attrs.(op.Fourier), &c.In[0]
	key := fftKey{kind: complexToComplex, n: in.Shape[a.Axis]}
	if in.DType == dtype.Float64 {
		key.double = 1
	}
	switch c.Op {
	case op.RFFT:
		key.kind = realToComplex
	case op.IRFFT:
		key.kind, key.n = complexToReal, a.N
	}
	from, to := linesLast(in, a.Axis, c.Op != op.RFFT), linesLast(&c.Out, a.Axis, c.Op != op.IRFFT)
	key.lines = from.Elements() / in.Shape[a.Axis]
	if c.Op != op.RFFT {
		key.lines /= 2
	}
	if key.n > fftLine || key.lines > fftLine {
		return errDetour
	}
	f, plan, err := d.fftPlan(key)
	if err != nil {
		return err
	}
	src, dst := addr(in), c.Out.Block.Addr
	if !from.Contiguous() || src%16 != 0 || c.Op == op.IRFFT { // the last may overwrite what it reads
		if src, err = d.copyspace(from.Elements() * in.DType.Size()); err != nil {
			return err
		}
	}
	moved := !to.Contiguous()
	if moved {
		if dst, err = d.statespace(to.Elements() * in.DType.Size()); err != nil {
			return err
		}
	}
	work := uintptr(0)
	if plan.work > 0 {
		if work, err = d.workspace(plan.work); err != nil {
			return err
		}
	}
	if src != addr(in) {
		if err := d.copyView(&from, src); err != nil {
			return err
		}
	}
	if err := d.library(libFFT.Name); err != nil {
		return err
	}
	d.c.fn, d.c.a[0], d.c.a[1] = f.lib.setWork, plan.handle, work
	if err := fftError("cufftSetWorkArea", int32(d.c.do())); err != nil {
		return err
	}
	direction := ^uintptr(0) // CUFFT_FORWARD is -1
	if a.Inverse {
		direction = 1
	}
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3] = f.lib.exec[key.double][key.kind], plan.handle, src, dst, direction
	if err := fftError("cufftExec", int32(d.c.do())); err != nil || !moved {
		return err
	}
	// Back to the order of the axes.
	lines := backend.View{Block: blockAt(dst), Shape: to.Shape, Strides: op.Strides(to.Shape), DType: to.DType}
	last := len(to.Shape) - 1
	if c.Op != op.IRFFT {
		last--
	}
	back := moveAxis(&lines, last, a.Axis)
	return d.copyView(&back, c.Out.Block.Addr)
}

// linesLast returns v with an axis behind all others, but for that of pairs.
func linesLast(v *backend.View, axis int, pairs bool) backend.View {
	last := len(v.Shape) - 1
	if pairs {
		last--
	}
	return moveAxis(v, axis, last)
}

// moveAxis returns v with an axis at another place.
func moveAxis(v *backend.View, from, to int) backend.View {
	m := *v
	n, s := v.Shape[from], v.Strides[from]
	m.Shape = slices.Insert(slices.Delete(slices.Clone(v.Shape), from, from+1), to, n)
	m.Strides = slices.Insert(slices.Delete(slices.Clone(v.Strides), from, from+1), to, s)
	return m
}
