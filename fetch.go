package locus

import (
	"sync"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/gate"
)

// Fetched is a copy to main memory that is on its way: see [Tensor.Fetch].
type Fetched struct {
	from *place
	out  *Tensor
	mu   sync.Mutex
	wait func() error // nil once the copy is there
	err  *Error
}

// Fetch begins to copy the tensor to main memory, page-locked where there is some, and
// returns at once. [Fetched.Wait] returns the copy. It waits for what was queued before
// Fetch and not for what the program has queued since, which [Tensor.To] and
// [Tensor.Item] would wait for too:
//
//	loss := step(x).Fetch()
//	next := step(y)               // the GPU goes on
//	fmt.Println(loss.Wait().Item()) // while this is read
//
// The copy belongs to no scope: the tensor may be freed, and its scope closed, before it is
// waited for. A tensor in main memory that is in no scope is its own copy, as with To.
// Gradients flow back as through To.
func (t *Tensor) Fetch() *Fetched {
	t.check("Fetch")
	t.single("Fetch")
	readable("Fetch")
	f := &Fetched{from: t.place}
	b, ok := t.place.backend.(backend.Fetcher)
	if ok && !t.place.host && t.Bytes() > 0 {
		f.out = allocatePinned(t.spec(), nil)
	}
	if f.out == nil {
		if f.out = t.To(CPU()); f.out == t && t.scope.Load() != nil {
			f.out = t.Copy()
		}
		if f.out != t && f.out.block != nil {
			f.out.keep("Fetch")
		}
		return f
	}
	f.begin(b, t)
	t.moved(f.out)
	return f
}

// begin starts the copy of t to f.out. Both stay until it has ended.
func (f *Fetched) begin(b backend.Fetcher, t *Tensor) {
	src := t.contiguous()
	src.hold("Fetch")
	f.out.hold("Fetch")
	transfer(DeviceToHost, t.place, machine.cpu, src.Bytes(), func() {
		wait, err := b.Fetch(f.out.hostBytes(), src.block, src.offset*src.dtype.Size(), func() {
			src.letGo()
			f.out.letGo()
		})
		if err != nil {
			fail("Fetch", err, t)
		}
		f.wait = wait
	})
	if src != t {
		src.Free() // it is held
	}
}

// Wait returns the copy, a tensor on the CPU, when it is there. What failed on the device
// before is what it panics with, every time.
func (f *Fetched) Wait() *Tensor {
	gate.Receiver("Fetched.Wait", f != nil && f.out != nil, "get one from Tensor.Fetch")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait != nil {
		transfer(Wait, f.from, f.from, 0, func() {
			if err := f.wait(); err != nil {
				f.err = newError("Fetch", err, nil)
			}
		})
		f.wait = nil
	}
	if f.err != nil {
		panic(f.err)
	}
	return f.out
}
