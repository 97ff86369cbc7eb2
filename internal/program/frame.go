package program

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// frame is a program as calls for a device, and where in them its values stand.
type frame struct {
	calls []backend.Call
	binds [][]spot // by value
}

// spot is a place in a call where a value stands.
type spot struct {
	view   *backend.View
	offset int // of the view in the value, as it was traced
}

func newFrame(p *Program) *frame {
	f := &frame{calls: make([]backend.Call, len(p.Steps)), binds: make([][]spot, len(p.Values))}
	for i := range p.Steps {
		s, c := &p.Steps[i], &f.calls[i]
		c.Op, c.Attrs, c.Step = s.Op, s.Attrs, s
		c.In, c.More = make([]backend.View, len(s.In)), make([]backend.View, len(s.More))
		set := func(v *backend.View, r *Ref) {
			*v = r.View
			if r.Value >= 0 {
				f.binds[r.Value] = append(f.binds[r.Value], spot{v, r.View.Offset})
			}
		}
		for k := range s.In {
			set(&c.In[k], &s.In[k])
		}
		set(&c.Out, &s.Out)
		for k := range s.More {
			set(&c.More[k], &s.More[k])
		}
	}
	return f
}

// bind puts a block in place of a value, whose traced memory begins at an element of it.
func (f *frame) bind(value int, b *memory.Block, offset int) {
	for _, s := range f.binds[value] {
		s.view.Block, s.view.Offset = b, s.offset+offset
	}
}

// labels says what each value holds, for the report of memory that has run out.
func labels(p *Program) []func() memory.Label {
	l := make([]func() memory.Label, len(p.Values))
	for i := range p.Values {
		spec := &p.Values[i].Spec
		l[i] = func() memory.Label {
			return memory.Label{DType: spec.DType.String(), Shape: op.ShapeString(spec.Shape)}
		}
	}
	return l
}

// arenaLabel is what the report says of the arena.
func arenaLabel() memory.Label {
	return memory.Label{DType: "workspace", Shape: "of compiled functions"}
}
