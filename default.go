package locus

import (
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/goid"
)

// The default device of the program, and those of goroutines inside WithDevice.
// As for NoGrad, goroutines are told apart only while some are inside.
var defaultDevice struct {
	program atomic.Pointer[Device]
	active  atomic.Int64
	mu      sync.RWMutex
	inside  map[uintptr]Device
}

// DefaultDevice returns where the package's own creation functions ([Zeros],
// [From], …) and the constructors of layers put tensors: the device of the
// innermost [WithDevice] that the calling goroutine is in, else that of
// [SetDefaultDevice], else the CPU.
func DefaultDevice() Device {
	if defaultDevice.active.Load() != 0 {
		id := goid.Get()
		defaultDevice.mu.RLock()
		d, ok := defaultDevice.inside[id]
		defaultDevice.mu.RUnlock()
		if ok {
			return d
		}
	}
	return programDevice()
}

// programDevice returns the default device of goroutines outside of WithDevice.
func programDevice() Device {
	if d := defaultDevice.program.Load(); d != nil {
		return *d
	}
	return CPU()
}

// SetDefaultDevice makes d the default device of the program and returns the
// previous one. [WithDevice] takes precedence over it. A device that does not exist
// is an [ErrDevice].
func SetDefaultDevice(d Device) (old Device) {
	d.open("SetDefaultDevice")
	if p := defaultDevice.program.Swap(&d); p != nil {
		return *p
	}
	return CPU()
}

// WithDevice runs f with d as the default device of the calling goroutine.
// Goroutines that f starts are not affected. Calls may be nested; the innermost
// counts. A device that does not exist is an [ErrDevice].
//
//	locus.WithDevice(locus.GPU(1), func() {
//		net = nn.Sequential(nn.Linear(784, 10)) // its parameters are on gpu:1
//	})
func WithDevice(d Device, f func()) {
	gate.Check("WithDevice", gate.Given("the function", f))
	d.open("WithDevice")
	id := goid.Get()
	defaultDevice.mu.Lock()
	if defaultDevice.inside == nil {
		defaultDevice.inside = map[uintptr]Device{}
	}
	old, nested := defaultDevice.inside[id]
	defaultDevice.inside[id] = d
	defaultDevice.mu.Unlock()
	defaultDevice.active.Add(1)
	defer func() {
		defaultDevice.active.Add(-1)
		defaultDevice.mu.Lock()
		if nested {
			defaultDevice.inside[id] = old
		} else {
			delete(defaultDevice.inside, id)
		}
		defaultDevice.mu.Unlock()
	}()
	f()
}
