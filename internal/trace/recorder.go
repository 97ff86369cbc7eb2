package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/goid"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// Recorder stands in for a device while a function is traced: it implements
// backend.Device, and appends what it is asked to do to the trace's program.
type Recorder struct {
	Pool *memory.Pool // of the blocks that stand for tensors

	trace  *Trace
	real   backend.Device
	next   uintptr
	values map[*memory.Block]int
	begun  *program.Ref // the token of the last Begin; nil before the first
}

var _ backend.Device = (*Recorder)(nil)

// NewRecorder returns a recorder for a device.
func (t *Trace) NewRecorder(real backend.Device) *Recorder {
	r := &Recorder{trace: t, real: real, values: map[*memory.Block]int{}}
	r.Pool = memory.NewPool(r).Paper()
	return r
}

// Closed reports whether the function that is recorded has ended.
func (r *Recorder) Closed() bool { return r.trace.closed.Load() }

// Owns reports whether b is a block of the recorder.
func (r *Recorder) Owns(b *memory.Block) bool { return b.In(r.Pool) }

// Used reports whether anything of the program is the recorder's.
func (r *Recorder) Used() bool { return len(r.values) > 0 }

// usable returns an error unless the calling goroutine may record.
func (r *Recorder) usable() error {
	switch {
	case r.Closed():
		return &op.Problem{Kind: op.ErrArgument, Msg: "an operand was computed while a function was traced, and has no elements",
			Fix: "let the compiled function return it, or keep it in a cell; Go variables that the function sets keep what the trace put there"}
	case r.foreign():
		// An error would end the program, where that goroutine has nobody to recover.
		r.trace.mu.Lock()
		r.trace.Refuse("it computes on another goroutine than its caller's: a program is made of what one goroutine does")
		r.trace.mu.Unlock()
	}
	return nil
}

// foreign reports whether another goroutine computes than the one that traces. What it
// records is worth nothing, and is recorded so that it can go on.
func (r *Recorder) foreign() bool { return goid.Get() != r.trace.goroutine }

// Allocate returns addresses without memory.
func (r *Recorder) Allocate(size int) (memory.Region, error) {
	if err := r.usable(); err != nil {
		return memory.Region{}, err
	}
	r.trace.mu.Lock()
	defer r.trace.mu.Unlock()
	r.next += 64 // blocks are told apart by their handles
	return memory.Region{Addr: r.next, Size: size}, nil
}

// Free does nothing: addresses are not used again.
func (r *Recorder) Free(memory.Region) {}

// Memory returns the device's.
func (r *Recorder) Memory() (total, free int64) { return r.real.Memory() }

// Info describes the device.
func (r *Recorder) Info() backend.Info { return r.real.Info() }

// Supports answers as the device does.
func (r *Recorder) Supports(id op.ID, d dtype.DType) bool { return r.real.Supports(id, d) }

// Input makes a block, which the recorder must own, a value from outside.
func (r *Recorder) Input(b *memory.Block, kind program.Kind, spec op.Spec) int {
	r.trace.mu.Lock()
	defer r.trace.mu.Unlock()
	return r.add(b, program.Value{Kind: kind, Spec: spec, Bytes: b.Size})
}

func (r *Recorder) add(b *memory.Block, v program.Value) int {
	p := &r.trace.Program
	v.On = r.real
	p.Values = append(p.Values, v)
	r.values[b] = len(p.Values) - 1
	return len(p.Values) - 1
}

// Ref returns a tensor as the program knows it.
func (r *Recorder) Ref(v backend.View) (program.Ref, error) {
	r.trace.mu.Lock()
	defer r.trace.mu.Unlock()
	return r.ref(v)
}

func (r *Recorder) ref(v backend.View) (program.Ref, error) {
	ref := program.Ref{Value: -1, View: v}
	ref.View.Block = nil
	if v.Block == nil {
		return ref, nil
	}
	id, ok := r.values[v.Block]
	switch {
	case ok:
	case r.Owns(v.Block): // without elements, so that no op has made it
		id = r.add(v.Block, program.Value{Spec: op.Spec{DType: v.DType, Shape: v.Shape}, Bytes: v.Block.Size})
	case v.Block.Paper():
		return ref, &op.Problem{Kind: op.ErrArgument, Msg: "an operand was computed while another function was traced, or the same one earlier",
			Fix: "let the compiled function return it, or keep it in a cell"}
	default:
		id = r.add(v.Block, program.Value{Kind: program.Captured, Spec: op.Spec{DType: v.DType, Shape: v.Shape}, Bytes: v.Block.Size, Block: v.Block, Site: callsite.Here(2)})
	}
	ref.Value = id
	return ref, nil
}

// Run appends the call.
func (r *Recorder) Run(c *backend.Call) error {
	if err := r.usable(); err != nil {
		return err
	}
	t := r.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	s := program.Step{Op: c.Op, Attrs: c.Attrs, In: make([]program.Ref, len(c.In)), Site: callsite.Here(1)}
	for i, v := range c.In {
		var err error
		if s.In[i], err = r.ref(v); err != nil {
			return err
		}
	}
	s.Out = r.made(c.Out)
	for _, v := range c.More {
		s.More = append(s.More, r.made(v))
	}
	if k, ok := c.Attrs.(op.Keyed); ok {
		if key := t.keys[k.RandomKey()]; key != nil {
			s.Late = func() op.Attrs { return k.WithKey(key()) }
		} else {
			t.Refuse("%s at %s draws with a key that does not advance from call to call: draw from a layer such as nn.Dropout or without a key, or make the numbers outside", c.Op, s.Site)
		}
	} else if late, was := t.late, c.Attrs; late != nil && was != nil && late(was) == was {
		s.Late, t.matched = func() op.Attrs { return late(was) }, true
	}
	t.Program.Steps = append(t.Program.Steps, s)
	return nil
}

// CopyIn makes a constant of what the host has.
func (r *Recorder) CopyIn(dst *memory.Block, src []byte, release func()) error {
	if err := r.usable(); err != nil {
		return err
	}
	r.trace.mu.Lock()
	defer r.trace.mu.Unlock()
	r.add(dst, program.Value{Kind: program.Const, Spec: op.Spec{DType: dtype.Uint8, Shape: []int{len(src)}}, Bytes: dst.Size, Data: slices.Clone(src), Site: callsite.Here(1)})
	if release != nil {
		release()
	}
	return nil
}

// CopyOut is an error: there is nothing to read.
func (r *Recorder) CopyOut(dst []byte, _ *memory.Block, _ int) error {
	clear(dst) // for another goroutine
	return r.read()
}

// Synchronize is an error.
func (r *Recorder) Synchronize() error { return r.read() }

func (r *Recorder) read() error {
	if err := r.usable(); err != nil {
		return err
	}
	if r.foreign() {
		return nil
	}
	r.trace.Err = Unreadable()
	return r.trace.Err
}

// Unreadable is the error of a function that reads a value while it is traced.
func Unreadable() error {
	return &op.Problem{Kind: op.ErrArgument, Msg: fmt.Sprintf("a compiled function reads or waits for a value at %s; while it is traced there are none", callsite.Here(2)),
		Fix: "return the tensor and read it outside; choose between tensors with Where instead of an if"}
}

// CopyFrom is not called: see Move.
func (r *Recorder) CopyFrom(*memory.Block, backend.Device, *memory.Block, int) (bool, error) {
	panic("trace: a copy between devices without its layout")
}

// Move appends a copy of in, a tensor of another recorder's device, to out. Go data becomes
// a constant here too.
func (r *Recorder) Move(from *Recorder, in, out backend.View) error {
	if err := r.usable(); err != nil {
		return err
	}
	t := r.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	x, err := from.ref(in)
	if err != nil {
		return err
	}
	if v := t.Program.Values[x.Value]; v.Kind == program.Const && x.View.Offset == 0 && len(v.Data) == out.Elements()*out.DType.Size() {
		r.add(out.Block, v)
		return nil
	}
	t.Program.Steps = append(t.Program.Steps, program.Step{Op: op.Copy, In: []program.Ref{x}, Out: r.made(out), Site: callsite.Here(1)})
	return nil
}

// Record marks nothing.
func (r *Recorder) Record() backend.Event { return event{} }

type event struct{}

func (event) Wait()                             {}
func (event) Done() bool                        { return true }
func (event) Since(backend.Event) time.Duration { return 0 }
