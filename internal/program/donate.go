package program

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Donation is memory that passes from what a variable held to what it is set to: the
// new value is written in its place.
type Donation struct {
	From, To int // values
}

// Donate returns the donations among wanted that are safe, and why the others are
// not. The memory of From is written to at the step that makes To, so
//
//   - nothing reads From afterwards, and that step itself only where its kernel may
//     write over its operand;
//   - no step behind may fail, for a run that fails leaves variables as they were.
//
// Steps whose results nobody else uses are moved to the end of the program for that:
// they set variables, and nothing waits for them.
func (p *Program) Donate(wanted []Donation) (done []Donation, refused []string) {
	taken := map[int]bool{}
	refuse := func(d Donation, format string, args ...any) {
		refused = append(refused, fmt.Sprintf("%%%d is not written over %%%d: ", d.To, d.From)+fmt.Sprintf(format, args...))
	}
	var fit []Donation
	for _, d := range wanted {
		from, to := &p.Values[d.From], &p.Values[d.To]
		switch {
		case from.Kind != State || to.Kind != Temp || from.Spec.DType != to.Spec.DType || op.Elements(from.Spec.Shape) != op.Elements(to.Spec.Shape) || op.Elements(from.Spec.Shape) == 0:
			refuse(d, "they are not of one size and type")
		case taken[d.From] || taken[d.To]:
			refuse(d, "another variable shares one of them")
		default:
			taken[d.From], taken[d.To] = true, true
			fit = append(fit, d)
		}
	}
	p.settle(fit)
	makers := p.makers()
	last := p.lastUses()
	risky := -1
	for i := range p.Steps {
		if !op.Get(p.Steps[i].Op).Plain() {
			risky = i
		}
	}
	for _, d := range fit {
		at := makers[d.To]
		switch {
		case at < 0:
			refuse(d, "no step makes it")
		case at <= risky:
			refuse(d, "%s behind it may fail", p.Steps[risky].Op)
		case last[d.From] > at:
			refuse(d, "%s needs the old value", p.Steps[last[d.From]].Op)
		case last[d.From] == at && !p.Steps[at].over(d.To, d.From):
			refuse(d, "%s cannot write over its operand", p.Steps[at].Op)
		default:
			done = append(done, d)
		}
	}
	return done, refused
}

// settle moves steps that make what variables are set to, and whose results no other
// step reads, behind all steps that may fail.
func (p *Program) settle(wanted []Donation) {
	ends := map[int]bool{}
	for _, d := range wanted {
		ends[d.To] = true
	}
	last := p.lastUses()
	risky := -1
	for i := range p.Steps {
		if !op.Get(p.Steps[i].Op).Plain() {
			risky = i
		}
	}
	var front, back []Step
	for i, s := range p.Steps {
		move := i < risky && op.Get(s.Op).Plain()
		s.Outs(func(r *Ref) { move = move && ends[r.Value] && last[r.Value] <= i })
		if move {
			back = append(back, s)
		} else {
			front = append(front, s)
		}
	}
	p.Steps = append(front, back...)
}

// makers returns the step that makes each value, -1 for none.
func (p *Program) makers() []int {
	m := slices.Repeat([]int{-1}, len(p.Values))
	for i := range p.Steps {
		p.Steps[i].Outs(func(r *Ref) { m[r.Value] = i })
	}
	return m
}

// lastUses returns the last step that reads or makes each value, -1 for none.
func (p *Program) lastUses() []int {
	last := slices.Repeat([]int{-1}, len(p.Values))
	for i := range p.Steps {
		s := &p.Steps[i]
		for k := range s.In {
			if v := s.In[k].Value; v >= 0 {
				last[v] = i
			}
		}
		s.Outs(func(r *Ref) { last[r.Value] = i })
	}
	return last
}

// over reports whether the step may write the value out, one of its results, over the
// value in; every operand of the step that reads in must allow it.
func (s *Step) over(out, in int) bool {
	def := op.Get(s.Op)
	r := 0
	for s.result(r).Value != out {
		r++
	}
	to := &s.result(r).View
	for i := range s.In {
		if s.In[i].Value != in {
			continue
		}
		from := &s.In[i].View
		if !def.Over(s.Attrs, r, i) || !sameLayout(from, to) {
			return false
		}
	}
	return true
}

// result returns result r of the step.
func (s *Step) result(r int) *Ref {
	if r == 0 {
		return &s.Out
	}
	return &s.More[r-1]
}

// sameLayout reports whether an operand lies as a result does: from the start of its
// memory, in order, without holes.
func sameLayout(from, to *backend.View) bool {
	return from.Offset == 0 && from.DType == to.DType && slices.Equal(from.Shape, to.Shape) && from.Contiguous()
}
