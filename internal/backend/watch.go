package backend

import (
	"sync/atomic"

	"github.com/locusml/locus/internal/op"
)

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

// Watched reports whether somebody watches calls: then they go to the device one by one.
func Watched() bool {
	w := watcher.Load()
	if w == nil {
		return false
	}
	_, whole := (*w).(PieceWatcher)
	return !whole
}

// PieceWatcher is a watcher that leaves programs as they are: it sees each run of one
// as a piece, and its calls, which have a Step, only on their way.
type PieceWatcher interface {
	Watcher
	// Piece calls run, once, which queues a program on d.
	Piece(d Device, program any, run func() error) error
}

// Pieces returns who watches programs as pieces, or nil.
func Pieces() PieceWatcher {
	if w := watcher.Load(); w != nil {
		p, _ := (*w).(PieceWatcher)
		return p
	}
	return nil
}

// Queue runs c on d. Everything above devices runs calls through this function.
func Queue(d Device, c *Call) error {
	if f := op.Get(c.Op).Family; f == op.LinalgFamily || f == op.FourierFamily { // no others have detours
		if t, ok := d.(Detourer); ok && t.Detours(c) {
			if note := detours.Load(); note != nil {
				return (*note)(d, c, func() error { return queue(d, c) })
			}
		}
	}
	return queue(d, c)
}

func queue(d Device, c *Call) error {
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

// Sider is a device that runs some work on a second stream, beside its kernels: large
// copies to it, and collectives.
type Sider interface {
	// Side marks the end of that stream; with open the stream first waits for everything
	// queued so far, as work does that is about to be queued there.
	Side(open bool) Event
	// Aside reports whether a copy of n bytes to the device runs there.
	Aside(n int) bool
}

// Detourer is a device that computes some ops in main memory: it copies operands there
// and results back, and Run waits meanwhile.
type Detourer interface {
	// Detours reports whether the call is computed in main memory.
	Detours(c *Call) bool
}

var detours atomic.Pointer[func(d Device, c *Call, run func() error) error]

// NoteDetours makes every detour go through note, which calls run, once, or returns an
// error.
func NoteDetours(note func(d Device, c *Call, run func() error) error) { detours.Store(&note) }
