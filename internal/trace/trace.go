// Package trace records what a goroutine computes instead of computing it. A trace
// is a backend: allocation makes blocks that have an identity and no memory, running
// an op appends a call, and views arrive in the calls as offsets and strides. So
// tensors, gradients, scopes and optimizers work on top of it as they are.
//
// State outside tensors, which belongs to networks and optimizers, takes part by the
// functions of this package: variables that hold tensors ([Get], [Set]), Go values
// that decide what is computed ([Watch]), keys and numbers that advance ([Draw],
// [Late], [Each]). Where nobody traces they cost one atomic load.
package trace

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/goid"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// Trace is one function on its way to a program, on the goroutine that called it.
type Trace struct {
	Program  program.Program
	Variable []*Variable   // in the order of their first use
	Watched  []Watched     // what the function has looked at
	Each     []func()      // what advances, before each run
	Ends     []func()      // what is left to record when the function has returned
	Err      error         // why the function cannot be traced at all: the caller's error
	Refusal  string        // why it must be computed without a program
	Stand    func(any) any // returns the stand-in of a variable's tensor, nil for one that the function has made
	Owner    any           // what package locus knows of the trace

	mu        sync.Mutex // of Program and Refusal, for goroutines that the function starts
	goroutine uintptr
	closed    atomic.Bool
	variables map[any]*Variable
	seen      map[any]bool // what is watched
	undo      []func()
	keys      map[uint64]func() uint64 // keys that advance, by their present bits
	late      func(was op.Attrs) op.Attrs
	matched   bool
	clock     func() (rate float64, step int64)
}

// Holder is a variable of a network, an optimizer or a program that holds a tensor,
// as it is behind all traces. It is comparable: equal holders are one variable.
type Holder interface {
	Load() any // a *locus.Tensor, which may be nil
	Store(any)
}

// Variable is a holder in a trace.
type Variable struct {
	Holder
	Before any // what it held when the trace saw it first
	Stand  any // what stood for that
	Value  any // what it holds now
	Set    bool
	Put    func(any) // where the function may look at the variable itself: puts a tensor there
}

// Watched is a Go value that decides what is computed.
type Watched struct {
	What string
	Read func() any
	Was  any
}

var (
	active  atomic.Int64
	mu      sync.RWMutex
	current = map[uintptr]*Trace{}
)

// Current returns the trace of the calling goroutine, or nil.
func Current() *Trace {
	if active.Load() == 0 {
		return nil
	}
	return lookup()
}

func lookup() *Trace {
	id := goid.Get()
	mu.RLock()
	defer mu.RUnlock()
	return current[id]
}

// New returns a trace that begins with [Trace.Do].
func New() *Trace {
	return &Trace{variables: map[any]*Variable{}, seen: map[any]bool{}, keys: map[uint64]func() uint64{}}
}

// Do runs f on the calling goroutine as the trace. Afterwards the trace is closed:
// tensors that f has left behind cannot be used.
func (t *Trace) Do(f func()) {
	t.goroutine = goid.Get()
	mu.Lock()
	current[t.goroutine] = t
	mu.Unlock()
	active.Add(1)
	defer func() {
		t.closed.Store(true)
		active.Add(-1)
		mu.Lock()
		delete(current, t.goroutine)
		mu.Unlock()
	}()
	f()
}

// Undo takes back what the traced function, or a run of its program, did to counters:
// for a trace that is not used, and a run that failed.
func (t *Trace) Undo() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
}

// Forget lets go of what only the trace itself needs, for a program that outlives it.
func (t *Trace) Forget() {
	t.Program, t.Variable, t.Watched, t.Owner, t.Stand = program.Program{}, nil, nil, nil, nil
	t.variables, t.seen, t.keys = nil, nil, nil
}

// Refuse notes why the function must be computed without a program; the first
// reason counts.
func (t *Trace) Refuse(format string, args ...any) {
	if t.Refusal == "" {
		t.Refusal = fmt.Sprintf(format, args...)
	}
}

// variable returns h in the trace. What the function itself has made, and put into
// h before, is not the trace's business: then it returns nil.
func (t *Trace) variable(h Holder) *Variable {
	v := t.variables[h]
	if v == nil {
		before := h.Load()
		stand := t.Stand(before)
		if stand == nil {
			return nil
		}
		v = &Variable{Holder: h, Before: before, Stand: stand, Value: stand}
		t.variables[h] = v
		t.Variable = append(t.Variable, v)
	}
	return v
}

// Place makes h, which the function may look at without [Get], a variable whose
// stand-in is put there with put; Restore undoes it.
func (t *Trace) Place(h Holder, put func(any)) {
	if v := t.variable(h); v != nil && v.Put == nil {
		v.Put = put
		put(v.Stand)
	}
}

// Restore puts back what placed variables held before the trace, having noted what
// they hold behind it. A second call does nothing.
func (t *Trace) Restore() {
	for _, v := range t.Variable {
		if v.Put != nil {
			v.Value, v.Set = v.Load(), true
			v.Put(v.Before)
			v.Put = nil
		}
	}
}

// Holders find the holder of a program's cell of a type that they know, and how to put
// a tensor there where the function may look at the cell without [Get]; nil where it
// may not. Packages with such types add to it when they are initialized.
var Holders []func(cell any) (h Holder, put func(any))

// HolderOf asks [Holders]; it returns nil for a cell of another type.
func HolderOf(cell any) (h Holder, put func(any)) {
	for _, f := range Holders {
		if h, put = f(cell); h != nil {
			return h, put
		}
	}
	return nil, nil
}

// Get returns what h holds: in the calling goroutine's trace, if there is one.
func Get(h Holder) any {
	if t := Current(); t != nil {
		if v := t.variable(h); v != nil {
			return v.Value
		}
	}
	return h.Load()
}

// Set puts a tensor into h, and reports true, if the calling goroutine traces: h
// itself stays as it is until the program runs.
func Set(h Holder, tensor any) bool {
	t := Current()
	if t == nil {
		return false
	}
	v := t.variable(h)
	if v == nil {
		return false
	}
	v.Value, v.Set = tensor, true
	if v.Put != nil {
		v.Put(tensor)
	}
	return true
}

// Watch notes that what is computed depends on a Go value that may change between
// calls, such as a layer's mode. A program is used only while all values that its
// trace has watched are as they were. Values are compared with ==.
// What is watched twice under one key is noted once.
func Watch(key any, what string, read func() any) {
	if t := Current(); t != nil && !t.seen[key] {
		t.seen[key] = true
		t.Watched = append(t.Watched, Watched{what, read, read()})
	}
}

// Assign notes that the function sets a Go value that is watched under key: where it has not
// looked at the value before, what that was does not decide what is computed. again sets it
// once more, before each run.
func Assign(key any, again func()) {
	if t := Current(); t != nil {
		t.seen[key] = true
		t.Each = append(t.Each, again)
	}
}

// Draw notes that a key is the next one of a sequence: at each run again returns the
// key to use in its place. undo takes the present one back.
func Draw(key uint64, again func() uint64, undo func()) {
	t := Current()
	if t == nil {
		return
	}
	now := &key
	t.Each = append(t.Each, func() { *now = again() })
	t.undo = append(t.undo, undo)
	t.keys[key] = func() uint64 { return *now }
}

// Derive notes that a key was computed from another one by f.
func Derive(from, to uint64, f func(uint64) uint64) {
	if t := Current(); t != nil {
		if k := t.keys[from]; k != nil {
			t.keys[to] = func() uint64 { return f(k()) }
		}
	}
}

// Advance notes that a counter has moved on: each does it again before every run,
// undo takes it back.
func Advance(each, undo func()) {
	if t := Current(); t != nil {
		t.Each = append(t.Each, each)
		t.undo = append(t.undo, undo)
	}
}

// Clock sets, until restore, what learning rate and number of steps are at each run.
func Clock(read func() (rate float64, step int64)) (restore func()) {
	t := Current()
	if t == nil {
		return func() {}
	}
	old := t.clock
	t.clock = read
	return func() { t.clock = old }
}

// UpdateAttrs returns the attributes of an optimizer's update, of which was are those
// that were recorded; nil if they are of another op. Package locus sets it, which
// alone knows its type of updates.
var UpdateAttrs func(update any, was op.Attrs) op.Attrs

// Late runs f, which runs an op whose attributes depend on the learning rate or the
// number of steps: a program asks again for them at each run, by the clock. again
// gets the attributes that were recorded and returns those to use; nil if they are of
// another op. At the time of the trace it must return what it gets: so numbers that a
// composition has taken apart cannot freeze in silence.
func Late(again func(was op.Attrs, rate float64, step int64) op.Attrs, f func()) {
	t := Current()
	if t == nil || t.clock == nil {
		f()
		return
	}
	clock := t.clock
	t.late, t.matched = func(was op.Attrs) op.Attrs {
		rate, step := clock()
		return again(was, rate, step)
	}, false
	defer func() { t.late = nil }()
	f()
	if !t.matched {
		t.Refuse("numbers of an optimizer, which change from step to step, are not attributes of one op on this device")
	}
}
