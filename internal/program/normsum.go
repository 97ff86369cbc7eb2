package program

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// FuseNorms returns a program that computes the same, to the bit, with sums put together
// with the normalizations of rows beside them, as residual connections have them: the sum
// that is normalized, and the sum of the gradients of both branches. Values keep their
// numbers; p is not changed. Each step that stands for two lists them. Sums that are part
// of a fused step stay there.
func (p *Program) FuseNorms(supports func(id op.ID, d dtype.DType) bool) *Program {
	f := &normFuser{newFolder(p, supports)}
	if !f.apply(map[op.ID]func(i int) bool{op.Normalized: f.before, op.NormalizeGrad: f.behind}) {
		return p
	}
	return f.p
}

type normFuser struct{ folder }

// isSum reports whether the step is a sum of two tensors of one shape and type.
func isSum(s *Step) bool {
	return s.Op == op.Add && len(s.Parts) == 0 && s.In[0].Value >= 0 && s.In[1].Value >= 0 &&
		s.In[0].View.DType == s.Out.View.DType && s.In[1].View.DType == s.Out.View.DType &&
		s.In[0].View.Contiguous() && s.In[1].View.Contiguous() && s.Out.View.Elements() > 0
}

// before makes step i, a normalization, and the sum that it reads one.
func (f *normFuser) before(i int) bool {
	s := &f.p.Steps[i]
	k, ok := f.maker[s.In[0].Value]
	if !ok || !isSum(&f.p.Steps[k]) || !whole(&s.In[0].View, &f.p.Steps[k].Out.View) || !f.supports(op.AddNormalize, s.Out.View.DType) {
		return false
	}
	a := &f.p.Steps[k]
	if slices.ContainsFunc(f.users[a.Out.Value], func(u int) bool { return u < i }) {
		return false // somebody needs the sum earlier
	}
	t := Step{Op: op.AddNormalize, Attrs: s.Attrs, Out: s.Out, Site: s.Site, Parts: []Step{*a, *s}}
	for _, r := range a.In {
		t.In = append(t.In, over(r, s.Out.View.Shape))
	}
	t.In = append(t.In, s.In[1:]...)
	t.More = append([]Ref{over(a.Out, s.Out.View.Shape)}, s.More...)
	f.replace(k, i, i, t)
	return true
}

// behind makes step i, the gradient of a normalization, and the sum that reads its first
// result one.
func (f *normFuser) behind(i int) bool {
	s := &f.p.Steps[i]
	users := f.users[s.Out.Value]
	if len(users) != 1 || f.kept[s.Out.Value] || !isSum(&f.p.Steps[users[0]]) || !f.supports(op.NormalizeGradAdd, s.Out.View.DType) {
		return false
	}
	k := users[0]
	a := &f.p.Steps[k]
	mine := slices.IndexFunc(a.In, func(r Ref) bool { return r.Value == s.Out.Value })
	other := a.In[1-mine]
	if made, ok := f.maker[other.Value]; ok && made > i || !whole(&a.In[mine].View, &s.Out.View) {
		return false // what is added is not there yet
	}
	t := Step{Op: op.NormalizeGradAdd, Attrs: s.Attrs, In: append(slices.Clone(s.In), over(other, s.Out.View.Shape)), Out: over(a.Out, s.Out.View.Shape), More: s.More, Site: s.Site, Parts: []Step{*s, *a}}
	f.replace(k, i, i, t)
	return true
}

// replace puts t in the place of step at, and leaves steps a and b out.
func (f *normFuser) replace(a, b, at int, t Step) {
	f.p.Steps[a].Op, f.p.Steps[b].Op = op.Invalid, op.Invalid
	f.p.Steps[at] = t
	for _, r := range t.In {
		f.users[r.Value] = append(f.users[r.Value], at)
	}
	t.Outs(func(r *Ref) { f.maker[r.Value] = at })
}
