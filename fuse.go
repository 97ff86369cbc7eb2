package locus

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// fusing is whether elementwise steps of programs are put together. It changes no
// result: the switch is there to find out whether it matters.
var fusing = os.Getenv("LOCUS_FUSE") != "off"

// lower returns the program as device d runs it. If recompute is set, it computes cheap
// values again instead of keeping them, where that saves memory, and says so.
func lower(p *program.Program, d backend.Device, recompute bool) (q *program.Program, again string) {
	q = fuse(p, d)
	if !recompute {
		return q, ""
	}
	r, done := p.Recompute()
	if done != nil {
		r = fuse(r, d)
	}
	if done == nil || r.Plan(nil, true).Arena >= q.Plan(nil, true).Arena {
		return q, "recomputation: none, it would not save memory"
	}
	return r, done.String()
}

// fuse returns the program with steps put together as device d can run them.
func fuse(p *program.Program, d backend.Device) *program.Program {
	q := p
	f, ok := d.(backend.Fuser)
	fuses := ok && fusing
	if fuses {
		q = q.Fold(d.Supports)
	}
	if a, ok := d.(backend.Arranger); ok {
		q = q.Arrange(a).EndNorms(a)
	}
	if fuses {
		q = q.Fuse(f).FuseNorms(d.Supports)
	}
	if err := q.Verify(); err != nil {
		panic("locus: a pass made a program that is wrong: " + err.Error())
	}
	return q
}

// explainFusion returns lines on what was fused in a program, what was not and why.
func explainFusion(p *program.Program, d backend.Device) []string {
	if _, ok := d.(backend.Fuser); !ok {
		return []string{"fusion: none, the device has no fused kernels"}
	}
	if !fusing {
		return []string{"fusion: none, LOCUS_FUSE is off"}
	}
	fused, into, alone, norms := 0, 0, 0, 0
	why, others := counts{}, counts{}
	for i := range p.Steps {
		switch s := &p.Steps[i]; {
		case s.Op == op.AddNormalize || s.Op == op.NormalizeGradAdd:
			norms++
		case len(s.Parts) > 0:
			fused += len(s.Parts)
			into++
		case s.Alone != "":
			alone++
			why.add(s.Alone, fmt.Sprintf("%s at %s", s.Op, s.Site))
		default:
			others.add(s.Op.String(), "")
		}
	}
	lines := []string{fmt.Sprintf("fusion: %d elementwise steps became %d, %d stay alone; %d steps are run in all", fused, into, alone, len(p.Steps))}
	if norms > 0 {
		lines = append(lines, fmt.Sprintf("  %d sums are part of the normalization before or after them", norms))
	}
	for _, w := range why.sorted() {
		lines = append(lines, fmt.Sprintf("  not fused, %d: %s: %s", w.n, w.name, w.list()))
	}
	if len(others) > 0 {
		var names []string
		for _, o := range others.sorted() {
			if o.n > 1 {
				o.name += fmt.Sprintf(" %d×", o.n)
			}
			names = append(names, o.name)
		}
		lines = append(lines, "  not elementwise: "+strings.Join(names, ", "))
	}
	return lines
}

// explainLayout returns a line on images that lie channels last, if there are any.
func explainLayout(p *program.Program) []string {
	steps, copies := 0, 0
	last := func(r program.Ref) bool { return r.View.ChannelsLast() }
	for i := range p.Steps {
		switch s := &p.Steps[i]; {
		case s.Op == op.Copy && (last(s.In[0]) || last(s.Out)):
			copies++
		case op.Get(s.Op).Images() && (last(s.Out) || slices.ContainsFunc(s.In, last)):
			steps++
		}
	}
	if steps == 0 {
		return nil
	}
	return []string{fmt.Sprintf("layout: %d steps have images channels last, %d copy some back", steps, copies)}
}

// counts counts things by name, in order of their first appearance.
type counts []count

type count struct {
	name  string
	n     int
	which []string
}

func (c *counts) add(name, which string) {
	i := slices.IndexFunc(*c, func(x count) bool { return x.name == name })
	if i < 0 {
		i = len(*c)
		*c = append(*c, count{name: name})
	}
	x := &(*c)[i]
	x.n++
	if which != "" && !slices.Contains(x.which, which) {
		x.which = append(x.which, which)
	}
}

// sorted returns the most frequent first.
func (c counts) sorted() counts {
	slices.SortStableFunc(c, func(a, b count) int { return cmp.Compare(b.n, a.n) })
	return c
}

// list names some of what was counted.
func (c *count) list() string {
	const enough = 4
	l := c.which
	if len(l) > enough {
		l = append(slices.Clone(l[:enough-1]), fmt.Sprintf("and %d other lines", len(l)-enough+1))
	}
	return strings.Join(l, ", ")
}
