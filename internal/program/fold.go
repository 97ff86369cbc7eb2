package program

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Fold returns a program that computes the same, to the bit, with conversions to float32
// left out where the op behind them reads half precision as it is: the loss of classes,
// whose scores are the largest tensor of a language model. Its gradient then writes half
// precision, where it is converted to that anyway. Values keep their numbers; p is not
// changed.
func (p *Program) Fold(supports func(id op.ID, d dtype.DType) bool) *Program {
	f := newFolder(p, supports)
	if !f.apply(map[op.ID]func(i int) bool{op.CrossEntropy: f.loss, op.CrossEntropyGrad: f.grad}) {
		return p
	}
	f.p.Prune()
	return f.p
}

// folder is the state of a pass that puts steps together: of Fold and FuseNorms.
type folder struct {
	p        *Program
	supports func(id op.ID, d dtype.DType) bool
	maker    map[int]int   // by value: the step that makes it
	users    map[int][]int // by value: the steps that read it, once per operand
	kept     map[int]bool  // values that are results
}

// newFolder begins a pass with a copy of p.
func newFolder(p *Program, supports func(id op.ID, d dtype.DType) bool) folder {
	f := folder{p: &Program{Values: p.Values, Steps: slices.Clone(p.Steps), Results: p.Results}, supports: supports}
	f.look()
	return f
}

// apply calls the rules of ops with the steps' numbers, takes out the steps that they
// have made invalid, and reports whether a rule has changed something.
func (f *folder) apply(rules map[op.ID]func(i int) bool) bool {
	changed := false
	for i := range f.p.Steps {
		if rule := rules[f.p.Steps[i].Op]; rule != nil {
			changed = rule(i) || changed
		}
	}
	f.p.Steps = slices.DeleteFunc(f.p.Steps, func(s Step) bool { return s.Op == op.Invalid })
	return changed
}

func (f *folder) look() {
	f.maker, f.users, f.kept = map[int]int{}, map[int][]int{}, map[int]bool{}
	for i := range f.p.Steps {
		s := &f.p.Steps[i]
		for _, r := range s.In {
			f.users[r.Value] = append(f.users[r.Value], i)
		}
		s.Outs(func(r *Ref) { f.maker[r.Value] = i })
	}
	for _, r := range f.p.Results {
		f.kept[r.Value] = true
	}
}

// half returns scores in half precision that r, contiguous float32, was converted from.
func (f *folder) half(id op.ID, r Ref) (Ref, bool) {
	i, ok := f.maker[r.Value]
	if !ok || f.p.Steps[i].Op != op.CastTo || r.View.DType != dtype.Float32 || !whole(&r.View, &f.p.Steps[i].Out.View) {
		return Ref{}, false
	}
	from := f.p.Steps[i].In[0]
	if d := from.View.DType; d.Size() != 2 || !d.IsFloat() || from.Value < 0 || !from.View.Contiguous() || !f.supports(id, d) {
		return Ref{}, false
	}
	from.View.Shape, from.View.Strides = r.View.Shape, op.Strides(r.View.Shape)
	return from, true
}

// whole reports whether v is all elements of made, in their order.
func whole(v, made *backend.View) bool {
	return v.Offset == 0 && v.Contiguous() && v.Elements() == made.Elements()
}

func (f *folder) loss(i int) bool {
	s := &f.p.Steps[i]
	x, ok := f.half(s.Op, s.In[0])
	if ok {
		s.In = slices.Clone(s.In)
		s.In[0] = x
	}
	return ok
}

// grad lets the gradient write what a conversion would make of it. Where others read it
// in float32, it stays as it is.
func (f *folder) grad(i int) bool {
	s := &f.p.Steps[i]
	x, ok := f.half(s.Op, s.In[0])
	users := f.users[s.Out.Value]
	if !ok || len(users) != 1 || f.kept[s.Out.Value] {
		return false
	}
	c := &f.p.Steps[users[0]]
	if c.Op != op.CastTo || c.Out.View.DType != x.View.DType || !whole(&c.In[0].View, &s.Out.View) {
		return false
	}
	s.In = slices.Clone(s.In)
	s.In[0] = x
	s.Out.Value = c.Out.Value
	s.Out.View.DType = x.View.DType
	c.Op = op.Invalid // it is left out
	return true
}
