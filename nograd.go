package locus

import (
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/goid"
)

// Goroutines that are inside NoGrad, and how deep. Go has no goroutine-local
// variables; the address of the runtime's own record of a goroutine tells them
// apart, and is asked for only while some goroutine is inside.
var noGrad struct {
	active atomic.Int64
	mu     sync.RWMutex
	depth  map[uintptr]int
}

// NoGrad runs f without recording anything for gradients, on the calling
// goroutine: what f computes requires no gradient. Goroutines that f starts are
// not affected.
func NoGrad(f func()) {
	gate.Check("NoGrad", gate.Given("the function", f))
	id := goid.Get()
	noGrad.mu.Lock()
	if noGrad.depth == nil {
		noGrad.depth = map[uintptr]int{}
	}
	noGrad.depth[id]++
	noGrad.mu.Unlock()
	noGrad.active.Add(1)
	defer func() {
		noGrad.active.Add(-1)
		noGrad.mu.Lock()
		if noGrad.depth[id]--; noGrad.depth[id] == 0 {
			delete(noGrad.depth, id)
		}
		noGrad.mu.Unlock()
	}()
	f()
}

// withGrad runs f with recording on, on the calling goroutine.
func withGrad(f func()) {
	if !gradDisabled() {
		f()
		return
	}
	id := goid.Get()
	set := func(depth int) (old int) {
		noGrad.mu.Lock()
		defer noGrad.mu.Unlock()
		old, noGrad.depth[id] = noGrad.depth[id], depth
		return old
	}
	old := set(0)
	defer func() { set(old) }()
	f()
}

// gradDisabled reports whether the calling goroutine is inside NoGrad.
func gradDisabled() bool {
	if noGrad.active.Load() == 0 {
		return false
	}
	id := goid.Get()
	noGrad.mu.RLock()
	defer noGrad.mu.RUnlock()
	return noGrad.depth[id] > 0
}
