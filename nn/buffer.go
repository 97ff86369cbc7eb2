package nn

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// Buffer is a tensor that a network keeps and does not train: running statistics,
// a table, a mask. It is saved, moved and copied with the network. The tensor
// itself never changes: an update puts another one in its place.
//
// A buffer is a cell like a [Parameter]: the copies of a network that [Bind]
// makes share it, and what they compute for it arrives in the network itself.
// Any number of goroutines may use one.
type Buffer struct {
	lazy
	mu    sync.Mutex // of those who replace the value
	value atomic.Pointer[bufferValue]
}

// bufferValue is a value and who it belongs to.
type bufferValue struct {
	t    *locus.Tensor
	made bool // by an update of the buffer, which may free it when it is replaced
	seen atomic.Int32
}

// Who has seen a buffer's value.
const (
	unseen  = iota
	given   // the program has a handle of it: the collector frees it
	claimed // a program is writing another one over it, which will be there in a moment
)

// NewBuffer returns a buffer with t as its first value.
func NewBuffer(t *locus.Tensor) *Buffer {
	checkTensor("nn.NewBuffer", t)
	b := new(Buffer)
	b.made = trace.Current()
	b.replace(taken(t), false)
	return b
}

// Value returns the present value, without history. It is nil for a buffer of a
// lazy layer before the first Forward. An update leaves it as it is: it may be
// kept.
func (b *Buffer) Value() *locus.Tensor {
	b.checkNil()
	if b.traced() {
		return trace.Get(bufferHolder{b}).(*locus.Tensor)
	}
	for {
		v := b.value.Load()
		if v == nil {
			return nil
		}
		if !v.seen.CompareAndSwap(unseen, given) && v.seen.Load() != given {
			runtime.Gosched()
			continue
		}
		if b.value.Load() == v { // whoever replaces it from now on sees that it was given
			return v.t
		}
	}
}

// Set puts another value of the same shape, type and device in place: t itself,
// or a copy if t is a view.
func (b *Buffer) Set(t *locus.Tensor) { b.set("nn.Buffer.Set", "", t) }

func (b *Buffer) set(op, name string, t *locus.Tensor) {
	b.checkNil()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.check(op, name, b.peek(), t)
	b.replace(taken(t), false)
}

// Update puts in place what f makes of the present value: nothing is recorded for
// gradients, what f computes on the way is freed, and updates from several
// goroutines happen one after the other. The result belongs to the buffer, and
// must be new: the next update frees it, unless it was read with Value before.
//
//	l.Mean.Update(func(old *locus.Tensor) *locus.Tensor {
//		return old.Mul(0.9).Add(batch.Mul(0.1))
//	})
func (b *Buffer) Update(f func(old *locus.Tensor) *locus.Tensor) {
	const op = "nn.Buffer.Update"
	b.checkNil()
	if f == nil {
		fail(locus.ErrArgument, op, "the function is nil", "")
	}
	b.update(op, func(old *locus.Tensor) *locus.Tensor {
		if old == nil {
			fail(locus.ErrArgument, op, "the buffer has no value yet", "give it one with Set first")
		}
		s := locus.NewScope()
		defer s.Close()
		t := f(s.Use(old))
		checkTensor(op, t)
		if t.SharesMemory(old) { // a view, which would be freed with it
			t = t.Copy()
		}
		return kept(t)
	})
}

// update is Update without a scope, for code that computes nothing on the way.
func (b *Buffer) update(op string, f func(old *locus.Tensor) *locus.Tensor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.peek()
	var t *locus.Tensor
	locus.NoGrad(func() { t = f(old) })
	b.check(op, "", old, t)
	b.replace(t, true)
}

// updateBoth is update of two buffers whose values one op computes, among others: what
// f computes has a history where it needs one, and its results, the new values, have none.
func updateBoth(op string, a, b *Buffer, f func(oldA, oldB *locus.Tensor) (newA, newB *locus.Tensor)) {
	if a == b {
		fail(locus.ErrArgument, op, "one buffer stands for two", "give each statistic a buffer of its own")
	}
	// In the order of their addresses, whichever way around another layer has them.
	first, second := a, b
	if uintptr(unsafe.Pointer(first)) > uintptr(unsafe.Pointer(second)) {
		first, second = second, first
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	second.mu.Lock()
	defer second.mu.Unlock()
	oldA, oldB := a.peek(), b.peek()
	newA, newB := f(oldA, oldB)
	a.check(op, "", oldA, newA)
	b.check(op, "", oldB, newB)
	a.replace(newA, true)
	b.replace(newB, true)
}

// peek returns the value to code that does not hand it on.
func (b *Buffer) peek() *locus.Tensor {
	b.checkNil()
	if b.traced() {
		return trace.Get(bufferHolder{b}).(*locus.Tensor)
	}
	if v := b.value.Load(); v != nil {
		return v.t
	}
	return nil
}

// replace puts t in place without checks, with b.mu held or before anybody has b,
// and frees the value that an update has made. made: nothing else has a handle of t.
func (b *Buffer) replace(t *locus.Tensor, made bool) {
	if t = kept(t); t.RequiresGrad() {
		t = t.Detach()
	}
	if b.traced() && trace.Set(bufferHolder{b}, t) {
		return
	}
	old := b.value.Swap(&bufferValue{t: t, made: made})
	if old != nil && old.made && old.seen.Load() != given && !old.t.SharesMemory(t) {
		old.t.Free() // at once: the collector would let garbage pile up, a little in every step
	}
}

// make sets b's first value, unless it has one: where it was asked to be, else
// on d.
func (b *Buffer) make(d locus.Device, dt locus.DType, init Initializer, shape ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.peek() == nil {
		b.replace(init(b.maker(d, dt), shape), true)
	}
}

// unmade returns a buffer without a value in place of b, which may be nil.
func (b *Buffer) unmade() *Buffer {
	if b == nil {
		return nil
	}
	q := &Buffer{lazy: b.lazy}
	q.made = trace.Current()
	return q
}

// Device is where the value lives, or for a lazy buffer where it will.
func (b *Buffer) Device() locus.Device {
	if t := b.peek(); t != nil {
		return t.Device()
	}
	return b.device
}

// String shows the value.
func (b *Buffer) String() string {
	if t := b.Value(); t != nil {
		return t.String()
	}
	return "<lazy buffer: its shape is known after the first Forward>"
}

func (b *Buffer) checkNil() {
	if b == nil {
		fail(locus.ErrArgument, "nn.Buffer", "the buffer is nil", "make layers with their constructors, such as nn.BatchNorm, and buffers with nn.NewBuffer")
	}
}
