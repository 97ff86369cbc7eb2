package trace

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// Begin appends a step that starts work, which reads in unless it is nil, and writes out, a
// block of the recorder's.
func (r *Recorder) Begin(w program.Work, in *backend.View, out backend.View) error {
	if err := r.usable(); err != nil {
		return err
	}
	mark, err := r.Pool.Allocate(1, func() memory.Label { return memory.Label{} })
	if err != nil {
		return err
	}
	t := r.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	s := program.Step{Op: op.Begin, Attrs: program.Outside{Work: w, Reads: in != nil}, Site: callsite.Here(2)}
	if in != nil {
		x, err := r.ref(*in)
		if err != nil {
			return err
		}
		s.In = append(s.In, x)
	}
	if r.begun != nil {
		s.In = append(s.In, *r.begun)
	}
	s.Out = r.made(out)
	m := r.made(backend.View{Block: mark, DType: dtype.Uint8, Shape: []int{1}, Strides: []int{1}})
	s.More, r.begun = []program.Ref{m}, &m
	t.Program.Steps = append(t.Program.Steps, s)
	return nil
}

// Await appends a step that waits for work that Begin has started with in and made; its
// result is to be used instead of made.
func (r *Recorder) Await(w program.Work, in *backend.View, made, out backend.View) error {
	if err := r.usable(); err != nil {
		return err
	}
	t := r.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	s := program.Step{Op: op.Await, Attrs: program.Outside{Work: w, Reads: in != nil}, Site: callsite.Here(2)}
	for _, v := range []*backend.View{&made, in} {
		if v == nil {
			continue
		}
		x, err := r.ref(*v)
		if err != nil {
			return err
		}
		s.In = append(s.In, x)
	}
	s.Out = r.made(out)
	t.Program.Steps = append(t.Program.Steps, s)
	return nil
}

// made returns a result of a step. The trace is locked.
func (r *Recorder) made(v backend.View) program.Ref {
	id := r.add(v.Block, program.Value{Spec: op.Spec{DType: v.DType, Shape: v.Shape}, Bytes: v.Elements() * v.DType.Size()})
	v.Block = nil
	return program.Ref{Value: id, View: v}
}
