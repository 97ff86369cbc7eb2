package trace

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

func view(t *testing.T, r *Recorder, n int) backend.View {
	b, err := r.Pool.Allocate(4*n, func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	return backend.View{Block: b, DType: dtype.Float32, Shape: []int{n}, Strides: []int{1}}
}

func TestRecorder(t *testing.T) {
	tr := New()
	r := tr.NewRecorder(cpu.Open())
	real := memory.NewPool(cpu.Open())
	outside, err := real.Allocate(40, func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	var left backend.View
	tr.Do(func() {
		if Current() != tr {
			t.Error("the goroutine's trace is another one")
		}
		x, y, c := view(t, r, 3), view(t, r, 3), view(t, r, 3)
		r.Input(x.Block, program.Arg, op.Spec{DType: dtype.Float32, Shape: x.Shape})
		released := false
		if err := r.CopyIn(c.Block, make([]byte, 12), func() { released = true }); err != nil || !released {
			t.Error("a constant:", err)
		}
		w := backend.View{Block: outside, Offset: 2, DType: dtype.Float32, Shape: []int{3}, Strides: []int{2}}
		in := []backend.View{x, w}
		if err := r.Run(&backend.Call{Op: op.Add, In: in, Out: y}); err != nil {
			t.Error(err)
		}
		in[0] = backend.View{} // the caller's again
		z := view(t, r, 3)
		if err := r.Run(&backend.Call{Op: op.Mul, In: []backend.View{y, c}, Out: z}); err != nil {
			t.Error(err)
		}
		left = z
		if ref, err := r.Ref(z); err != nil {
			t.Error(err)
		} else {
			tr.Program.Results = []program.Ref{ref}
		}
		done := make(chan error)
		go func() {
			if Current() != nil {
				t.Error("another goroutine traces too")
			}
			done <- r.Run(&backend.Call{Op: op.Exp, In: []backend.View{x}, Out: x})
		}()
		if err := <-done; err != nil || !strings.Contains(tr.Refusal, "another goroutine") {
			t.Error("a call from another goroutine:", err, tr.Refusal)
		}
		tr.Program.Steps, tr.Program.Values = tr.Program.Steps[:2], tr.Program.Values[:5] // without that
		if err := r.CopyOut(nil, z.Block, 0); err == nil || !strings.Contains(err.Error(), "trace_test.go:") || tr.Err == nil {
			t.Error("reading:", err)
		}
	})
	if Current() != nil {
		t.Error("the trace goes on")
	}
	p := &tr.Program
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
	var kinds []program.Kind
	for _, v := range p.Values {
		kinds = append(kinds, v.Kind)
	}
	if len(p.Steps) != 2 || len(kinds) != 5 || kinds[0] != program.Arg || kinds[1] != program.Const || kinds[2] != program.Captured || p.Steps[0].In[1].View.Offset != 2 {
		t.Errorf("recorded %v\n%s", kinds, p)
	}
	if err := r.Run(&backend.Call{Op: op.Exp, In: []backend.View{left}, Out: left}); !errors.Is(err, op.ErrArgument) {
		t.Error("a call behind the trace:", err)
	}
	next := New()
	next.Do(func() {
		if _, err := next.NewRecorder(cpu.Open()).Ref(left); !errors.Is(err, op.ErrArgument) {
			t.Error("a tensor of another trace:", err)
		}
	})
}

func TestKeysAdvance(t *testing.T) {
	tr := New()
	r := tr.NewRecorder(cpu.Open())
	n := uint64(10)
	tr.Do(func() {
		Draw(10, func() uint64 { n++; return n }, func() { n = 0 })
		Derive(10, 1010, func(k uint64) uint64 { return k + 1000 })
		for _, k := range []uint64{10, 1010, 5} {
			if err := r.Run(&backend.Call{Op: op.RandUniform, Attrs: op.Random{Key: k}, Out: view(t, r, 3)}); err != nil {
				t.Error(err)
			}
		}
	})
	late := func(i int) uint64 { return tr.Program.Steps[i].Late().(op.Random).Key }
	if late(0) != 10 || late(1) != 1010 {
		t.Errorf("keys %d and %d in the call that was traced", late(0), late(1))
	}
	tr.Each[0]()
	if late(0) != 11 || late(1) != 1011 {
		t.Errorf("keys %d and %d in the next run", late(0), late(1))
	}
	if tr.Program.Steps[2].Late != nil || !strings.Contains(tr.Refusal, "does not advance") {
		t.Errorf("a key of nobody: %q", tr.Refusal)
	}
	tr.Undo()
	if n != 0 {
		t.Error("drawing was not taken back")
	}
}

func TestLateAttributes(t *testing.T) {
	tr := New()
	r := tr.NewRecorder(cpu.Open())
	rate := 0.5
	attrs := func(was op.Attrs, rate float64, _ int64) op.Attrs {
		if a, ok := was.(op.Scales); ok {
			a.B = -rate
			return a
		}
		return nil
	}
	tr.Do(func() {
		defer Clock(func() (float64, int64) { return rate, 1 })()
		Late(attrs, func() {
			for _, a := range []op.Attrs{nil, op.Cast{}, op.Scales{A: 1, B: -0.5}} {
				if err := r.Run(&backend.Call{Op: op.Blend, Attrs: a, Out: view(t, r, 3)}); err != nil {
					t.Error(err)
				}
			}
		})
		if tr.Refusal != "" {
			t.Error(tr.Refusal)
		}
		Late(attrs, func() {}) // numbers that no op has: a composition has eaten them
	})
	rate = 0.25
	if s := tr.Program.Steps; s[0].Late != nil || s[1].Late != nil || s[2].Late() != (op.Scales{A: 1, B: -0.25}) {
		t.Error("attributes are not asked for again")
	}
	if !strings.Contains(tr.Refusal, "numbers of an optimizer") {
		t.Errorf("numbers without an op: %q", tr.Refusal)
	}
}

// cell is a variable.
type cell struct{ v *int }

func (c *cell) Load() any   { return c.v }
func (c *cell) Store(v any) { c.v = v.(*int) }

func TestVariables(t *testing.T) {
	one, stand, two := new(1), new(-1), new(2)
	c, d := &cell{one}, &cell{one}
	tr := New()
	tr.Stand = func(any) any { return stand }
	mode := false
	tr.Do(func() {
		if Get(c) != stand || !Set(c, two) || Get(c) != two || c.v != one {
			t.Error("a variable in a trace")
		}
		tr.Place(d, func(v any) { d.v = v.(*int) })
		if d.v != stand || !Set(d, two) || d.v != two {
			t.Error("a variable that the function looks at")
		}
		tr.Restore()
		tr.Restore()
		for range 2 {
			Watch("key", "the mode", func() any { return mode })
		}
	})
	if c.v != one || d.v != one || Get(c) != one || Set(c, two) {
		t.Error("a variable behind the trace is not as it was")
	}
	if len(tr.Variable) != 2 || tr.Variable[1].Value != two || len(tr.Watched) != 1 || tr.Watched[0].Was != false {
		t.Error("what the trace knows")
	}
}
