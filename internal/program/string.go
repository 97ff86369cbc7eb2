package program

import (
	"fmt"
	"strings"

	"github.com/locusml/locus/internal/op"
)

// String lists the program, a line per step.
func (p *Program) String() string {
	var b strings.Builder
	for i, v := range p.Values {
		switch v.Kind {
		case Temp:
			continue
		case Captured, Const:
			fmt.Fprintf(&b, "%%%d = %s %s %s, first used at %s\n", i, v.Kind, v.Spec.DType, op.ShapeString(v.Spec.Shape), v.Site)
		default:
			fmt.Fprintf(&b, "%%%d = %s %s %s\n", i, v.Kind, v.Spec.DType, op.ShapeString(v.Spec.Shape))
		}
	}
	for i := range p.Steps {
		p.step(&b, &p.Steps[i])
		for k := range p.Steps[i].Parts {
			b.WriteString("    ")
			p.step(&b, &p.Steps[i].Parts[k])
		}
	}
	b.WriteString("return")
	for i := range p.Results {
		fmt.Fprintf(&b, " %s", p.ref(&p.Results[i], false))
	}
	b.WriteString("\n")
	return b.String()
}

// step writes a line.
func (p *Program) step(b *strings.Builder, s *Step) {
	b.WriteString(p.ref(&s.Out, true))
	for k := range s.More {
		fmt.Fprintf(b, ", %s", p.ref(&s.More[k], true))
	}
	fmt.Fprintf(b, " = %s(", s.Op)
	for k := range s.In {
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.ref(&s.In[k], false))
	}
	b.WriteString(")")
	switch e, _ := s.Attrs.(*op.Expression); {
	case e != nil:
		fmt.Fprintf(b, " %d steps in one pass\n", len(e.Nodes)) // their lines follow
		return
	case s.Late != nil:
		fmt.Fprintf(b, " %T at each run", s.Attrs)
	case s.Attrs != nil:
		fmt.Fprintf(b, " %+v", s.Attrs)
	}
	fmt.Fprintf(b, "  # %s", s.Site)
	if s.Again {
		b.WriteString("; computed again")
	}
	if s.Alone != "" {
		fmt.Fprintf(b, "; not fused: %s", s.Alone)
	}
	b.WriteString("\n")
}

// ref writes a tensor: its value, and its layout unless that is the value's own.
func (p *Program) ref(r *Ref, typed bool) string {
	if r.Value < 0 {
		return fmt.Sprintf("%s#%x", r.View.DType, r.View.Bits)
	}
	s := fmt.Sprintf("%%%d", r.Value)
	last := ""
	if r.View.Offset == 0 && r.View.ChannelsLast() {
		last = " channels last"
	}
	if typed {
		return s + fmt.Sprintf(":%s%s%s", r.View.DType, op.ShapeString(r.View.Shape), last)
	}
	if last != "" && op.Elements(r.View.Shape) == op.Elements(p.Values[r.Value].Spec.Shape) {
		return s + last
	}
	if r.View.Offset != 0 || !r.View.Contiguous() || op.Elements(r.View.Shape) != op.Elements(p.Values[r.Value].Spec.Shape) {
		s += fmt.Sprintf("%v/%v+%d", r.View.Shape, r.View.Strides, r.View.Offset)
	}
	return s
}
