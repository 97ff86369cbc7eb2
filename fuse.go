package locus

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/program"
)

// fusing is whether elementwise steps of programs are put together. It changes no
// result: the switch is there to find out whether it matters.
var fusing = os.Getenv("LOCUS_FUSE") != "off"

// fuse returns the program as device d runs it.
func fuse(p *program.Program, d backend.Device) *program.Program {
	f, ok := d.(backend.Fuser)
	if !ok || !fusing {
		return p
	}
	q := p.Fold(d.Supports).Fuse(f)
	if err := q.Verify(); err != nil {
		panic("locus: fusion made a program that is wrong: " + err.Error())
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
	fused, into, alone := 0, 0, 0
	why, others := counts{}, counts{}
	for i := range p.Steps {
		switch s := &p.Steps[i]; {
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
