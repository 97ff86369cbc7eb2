package backend

import "sync/atomic"

// Watcher sees calls on their way to a device: a profiler, for instance.
type Watcher interface {
	// Run runs c on d, once, and notes what it wants to know.
	Run(d Device, c *Call) error
}

var watcher atomic.Pointer[Watcher]

// Watch makes w see every call from now on; nil ends it.
func Watch(w Watcher) {
	if w == nil {
		watcher.Store(nil)
		return
	}
	watcher.Store(&w)
}

// Watched reports whether somebody watches: then calls go to the device one by one.
func Watched() bool { return watcher.Load() != nil }

// Queue runs c on d. Everything above devices does so by this function.
func Queue(d Device, c *Call) error {
	if w := watcher.Load(); w != nil {
		return (*w).Run(d, c)
	}
	return d.Run(c)
}

// Marker is a device that can mark the end of its queue of kernels alone. Record also
// waits for copies, and so keeps them from running beside kernels.
type Marker interface {
	Mark() Event
}
