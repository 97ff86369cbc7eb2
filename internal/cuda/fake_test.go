//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// fake is a driver whose devices live in host memory. It copies, allocates and
// keeps events, but runs no kernels: it is for the layers between the driver and
// the backend's contract, and for everything that can go wrong there.
type fake struct {
	mu       sync.Mutex
	version  int32
	cards    int32
	major    int32
	total    int64
	results  map[string]Result // what a function answers instead of working
	memory   map[uintptr][]byte
	used     int64
	made     uintptr // streams
	kernels  map[uintptr]string
	launches []launched
	linking  map[uintptr][]byte // texts, by linker
	linked   int                // texts that were compiled
	onLink   func()             // called by a compilation
	peerLies bool               // peer copies report success and copy nothing
	tight    map[string]int64   // functions that find no memory while more than this is used
	onLaunch func() func()      // gives what a launch does when its stream gets there
	emulate  func(l launched)   // does what a kernel does
	graphs   fakeCaptures

	// Where lazy is set, streams run only when somebody asks or waits, and then in an
	// order that is random but for what they wait for.
	lazy    *rand.Rand
	streams map[uintptr][]fakeTask
	events  map[uintptr]*fakeEvent
}

// fakeTask is an entry of a stream; ready says whether it may run now.
type fakeTask struct {
	ready func() bool
	run   func()
}

type fakeEvent struct{ recorded, passed int }

// enqueue runs work, now or when its stream gets there.
func (f *fake) enqueue(stream uintptr, ready func() bool, run func()) {
	if f.lazy == nil {
		run()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams[stream] = append(f.streams[stream], fakeTask{ready, run})
}

func (f *fake) event(h uintptr) *fakeEvent {
	e := f.events[h]
	if e == nil {
		e = new(fakeEvent)
		f.events[h] = e
	}
	return e
}

// step runs one task of some stream; f.mu is held.
func (f *fake) step() bool {
	var able []uintptr
	for s, tasks := range f.streams {
		if len(tasks) > 0 && tasks[0].ready() {
			able = append(able, s)
		}
	}
	if len(able) == 0 {
		return false
	}
	slices.Sort(able)
	s := able[f.lazy.IntN(len(able))]
	t := f.streams[s][0]
	f.streams[s] = f.streams[s][1:]
	t.run()
	return true
}

// until runs tasks until done.
func (f *fake) until(done func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.lazy != nil && !done() {
		if !f.step() {
			panic("the streams wait for each other")
		}
	}
}

func (f *fake) idle() bool {
	for _, tasks := range f.streams {
		if len(tasks) > 0 {
			return false
		}
	}
	return true
}

func always() bool { return true }

type launched struct {
	kernel string
	grid   [3]uintptr
	block  uintptr
	params [paramWords]uint64 // with whatever lies behind them
}

// paramsAt reads what a launch's parameters point to.
func paramsAt(args uintptr) [paramWords]uint64 {
	return *(*[paramWords]uint64)(*(*unsafe.Pointer)(pointer(args)))
}

// launch queues a kernel, which does nothing but what onLaunch says.
func (f *fake) launch(stream uintptr, l launched) {
	f.mu.Lock()
	f.launches = append(f.launches, l)
	f.mu.Unlock()
	if f.onLaunch != nil {
		f.enqueue(stream, always, f.onLaunch())
	}
	if f.emulate != nil {
		f.enqueue(stream, always, func() { f.emulate(l) })
	}
}

// The C functions of the process call the fake that was made last: callbacks
// cannot be freed, so there is one set of them.
var current *fake

func newFake() (*fake, *driver) {
	f := &fake{version: 12040, cards: 1, major: 8, total: 1 << 30, results: map[string]Result{}, memory: map[uintptr][]byte{}, kernels: map[uintptr]string{},
		streams: map[uintptr][]fakeTask{}, events: map[uintptr]*fakeEvent{}, graphs: newFakeCaptures()}
	current = f
	return f, f.driver()
}

func (f *fake) answer(name string) Result {
	if most, ok := f.tight[name]; ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.used > most {
			return resultOutOfMemory
		}
	}
	return f.results[name]
}

func (f *fake) alloc(n uint64) uintptr {
	b := make([]byte, n+256)
	p := (uintptr(unsafe.Pointer(&b[0])) + 255) &^ 255
	f.mu.Lock()
	f.memory[p] = b
	f.mu.Unlock()
	return p
}

func view(p uintptr, n uintptr) []byte { return unsafe.Slice((*byte)(pointer(p)), n) }

var fakeHot = sync.OnceValue(func() *driver {
	d := new(driver)
	set := func(p *uintptr, f any) { *p = purego.NewCallback(f) }
	plain := func(name string, work func(f *fake)) func() uintptr {
		return func() uintptr {
			if r := current.answer(name); r != success {
				return uintptr(r)
			}
			if work != nil {
				work(current)
			}
			return 0
		}
	}
	copier := func(name string) func(dst, src, n, stream uintptr) uintptr {
		return func(dst, src, n, stream uintptr) uintptr {
			return plain(name, func(f *fake) {
				f.enqueue(stream, always, func() { copy(view(dst, n), view(src, n)) })
			})()
		}
	}
	set(&d.ctxSetCurrent, plain("cuCtxSetCurrent", nil))
	set(&d.launchKernel, func(k, gx, gy, gz, bx, by, bz, shared, stream, params, extra uintptr) uintptr {
		return plain("cuLaunchKernel", func(f *fake) {
			l := launched{f.kernels[k], [3]uintptr{gx, gy, gz}, bx, paramsAt(params)}
			if !f.graphs.captured(stream, l) {
				f.launch(stream, l)
			}
		})()
	})
	set(&d.memcpyHtoDAsync, copier("cuMemcpyHtoDAsync"))
	set(&d.memcpyDtoHAsync, copier("cuMemcpyDtoHAsync"))
	set(&d.memcpyPeerAsync, func(dst, dstCtx, src, srcCtx, n, stream uintptr) uintptr {
		return plain("cuMemcpyPeerAsync", func(f *fake) {
			if !f.peerLies {
				f.enqueue(stream, always, func() { copy(view(dst, n), view(src, n)) })
			}
		})()
	})
	set(&d.eventCreate, func(p uintptr, flags uintptr) uintptr {
		return plain("cuEventCreate", func(f *fake) { *(*uintptr)(pointer(p)) = f.alloc(8) })()
	})
	set(&d.eventRecord, func(h, stream uintptr) uintptr {
		if h == 0 {
			return 400 // as the driver
		}
		return plain("cuEventRecord", func(f *fake) {
			f.mu.Lock()
			e := f.event(h)
			e.recorded++
			n := e.recorded
			f.mu.Unlock()
			f.enqueue(stream, always, func() { e.passed = n })
		})()
	})
	set(&d.eventQuery, func(h uintptr) uintptr {
		r := plain("cuEventQuery", nil)()
		if f := current; r == 0 && f.lazy != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.step()
			if e := f.event(h); e.passed < e.recorded {
				return uintptr(resultNotReady)
			}
		}
		return r
	})
	set(&d.eventSynchronize, func(h uintptr) uintptr {
		return plain("cuEventSynchronize", func(f *fake) {
			f.mu.Lock()
			e := f.event(h)
			n := e.recorded
			f.mu.Unlock()
			f.until(func() bool { return e.passed >= n })
		})()
	})
	set(&d.eventElapsedTime, func(p, a, b uintptr) uintptr {
		return plain("cuEventElapsedTime", func(*fake) { *(*float32)(pointer(p)) = 1.5 })()
	})
	set(&d.streamSynchronize, func(s uintptr) uintptr {
		return plain("cuStreamSynchronize", func(f *fake) { f.until(func() bool { return len(f.streams[s]) == 0 }) })()
	})
	set(&d.streamWaitEvent, func(s, h, flags uintptr) uintptr {
		return plain("cuStreamWaitEvent", func(f *fake) {
			f.mu.Lock()
			e := f.event(h)
			n := e.recorded
			f.mu.Unlock()
			f.enqueue(s, func() bool { return e.passed >= n }, func() {})
		})()
	})
	fakeGraphFunctions(&d.graphs, set, plain)
	return d
})

func text(b *byte, n int32, s string) { copy(unsafe.Slice(b, n), s+"\x00") }

// driver returns the fake's functions.
func (f *fake) driver() *driver {
	d := *fakeHot()
	d.path = "fake"
	give := func(p *uintptr, v uintptr, name string) Result {
		if r := f.answer(name); r != success {
			return r
		}
		*p = v
		return success
	}
	d.Init = func(uint32) Result { return f.answer("cuInit") }
	d.DriverGetVersion = func(v *int32) Result { *v = f.version; return f.answer("cuDriverGetVersion") }
	d.GetErrorString = func(r Result, s **byte) Result { *s = cBytes("the driver's own words"); return success }
	d.DeviceGetCount = func(n *int32) Result { *n = f.cards; return f.answer("cuDeviceGetCount") }
	d.DeviceGet = func(dev *int32, i int32) Result { *dev = i; return f.answer("cuDeviceGet") }
	d.DeviceGetName = func(b *byte, n int32, _ int32) Result { text(b, n, "Fake GPU"); return f.answer("cuDeviceGetName") }
	d.DeviceGetPCIBusId = func(b *byte, n int32, _ int32) Result { text(b, n, "0000:01:00.0"); return success }
	d.DeviceGetAttribute = func(v *int32, attr int32, _ int32) Result {
		*v = map[int32]int32{attrMajor: f.major, attrMinor: 0, attrMultiprocessors: 100, attrSharedOptIn: 160 << 10}[attr]
		return f.answer("cuDeviceGetAttribute")
	}
	d.DeviceTotalMem = func(n *uint64, _ int32) Result { *n = uint64(f.total); return f.answer("cuDeviceTotalMem") }
	d.DevicePrimaryCtxRetain = func(c *uintptr, dev int32) Result { return give(c, uintptr(dev)+1, "cuDevicePrimaryCtxRetain") }
	d.DeviceCanAccessPeer = func(can *int32, _, _ int32) Result { *can = 1; return success }
	d.CtxEnablePeerAccess = func(uintptr, uint32) Result { return success }
	d.StreamCreate = func(s *uintptr, _ uint32) Result {
		f.made++
		return give(s, f.made, "cuStreamCreate")
	}
	d.ModuleLoadDataEx = func(m *uintptr, image *byte, _ uint32, _ *int32, _ *uintptr) Result {
		name, found := "", false
		for n := 0; !found; n++ { // up to the parenthesis that follows the kernel's name
			switch *(*byte)(unsafe.Add(unsafe.Pointer(image), n)) {
			case 0:
				return 218
			case '(':
				_, name, found = strings.Cut(string(unsafe.Slice(image, n)), entryMark)
			}
		}
		h := f.alloc(8)
		f.kernels[h] = name
		return give(m, h, "cuModuleLoadDataEx")
	}
	d.LinkCreate = func(_ uint32, _ *int32, _ *uintptr, state *uintptr) Result {
		return give(state, f.alloc(8), "cuLinkCreate")
	}
	d.LinkAddData = func(state uintptr, kind int32, data *byte, size uint64, _ *byte, _ uint32, _ *int32, _ *uintptr) Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.memory[state] == nil || kind != jitPTX || unsafe.Slice(data, size)[size-1] != 0 {
			return 1
		}
		if f.linking == nil {
			f.linking = map[uintptr][]byte{}
		}
		f.linking[state] = slices.Clone(unsafe.Slice(data, size))
		return f.results["cuLinkAddData"]
	}
	d.LinkComplete = func(state uintptr, image *uintptr, size *uint64) Result {
		if f.onLink != nil {
			f.onLink()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		b := f.linking[state] // the image is the text
		if f.linked++; len(b) == 0 {
			return 1
		}
		*image, *size = uintptr(unsafe.Pointer(&b[0])), uint64(len(b))
		return f.results["cuLinkComplete"]
	}
	d.LinkDestroy = func(state uintptr) Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.linking[state] == nil {
			return 1
		}
		clear(f.linking[state]) // as the driver, whose image is gone then
		delete(f.linking, state)
		delete(f.memory, state)
		return success
	}
	d.ModuleGetFunction = func(k *uintptr, m uintptr, name *byte) Result {
		if f.kernels[m] != cString(name) {
			return 500
		}
		return give(k, m, "cuModuleGetFunction")
	}
	d.FuncSetAttribute = func(uintptr, int32, int32) Result { return f.answer("cuFuncSetAttribute") }
	d.MemAlloc = func(p *uintptr, n uint64) Result {
		if r := f.answer("cuMemAlloc"); r != success {
			return r
		}
		f.mu.Lock()
		if f.used+int64(n) > f.total {
			f.mu.Unlock()
			return resultOutOfMemory
		}
		f.used += int64(n)
		f.mu.Unlock()
		*p = f.alloc(n)
		return success
	}
	d.MemFree = func(p uintptr) Result {
		f.until(func() bool { return f.idle() }) // as the driver does
		f.mu.Lock()
		defer f.mu.Unlock()
		b, ok := f.memory[p]
		if !ok {
			return 1
		}
		f.used -= int64(len(b) - 256)
		delete(f.memory, p)
		return f.answer("cuMemFree")
	}
	d.MemGetInfo = func(free, total *uint64) Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		*free, *total = uint64(f.total-f.used), uint64(f.total)
		return f.answer("cuMemGetInfo")
	}
	d.MemHostAlloc = func(p *uintptr, n uint64, _ uint32) Result { return give(p, f.alloc(n), "cuMemHostAlloc") }
	registered := map[uintptr]bool{}
	d.MemHostRegister = func(p uintptr, n uint64, _ uint32) Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		if p%4096 != 0 || registered[p] {
			return 1
		}
		registered[p] = f.answer("cuMemHostRegister") == success
		return f.answer("cuMemHostRegister")
	}
	d.MemHostUnregister = func(p uintptr) Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !registered[p] {
			return 1
		}
		delete(registered, p)
		return f.answer("cuMemHostUnregister")
	}
	d.MemFreeHost = func(p uintptr) Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := f.memory[p]; !ok {
			return 1
		}
		delete(f.memory, p)
		return f.answer("cuMemFreeHost")
	}
	d.MemHostGetDevicePointer = func(p *uintptr, h uintptr, _ uint32) Result { *p = h; return success }
	return &d
}

// ran lists the kernels that were launched whose name begins with a prefix.
func (f *fake) ran(prefix string) (names []string) {
	for _, l := range f.launches {
		if strings.HasPrefix(l.kernel, prefix) {
			names = append(names, l.kernel)
		}
	}
	return names
}

// fakeSum returns a C function that adds its twelve arguments.
var fakeSum = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(a, b, c, d, e, f, g, h, i, j, k, l uintptr) uintptr {
		return a + b + c + d + e + f + g + h + i + j + k + l
	})
})
