package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/sketch"
	"github.com/locusml/locus/internal/units"
)

// Names says what the values of a program are to those who read a picture of it.
type Names struct {
	Title string
	Value []string   // by value from outside; "" for others
	Made  [][]string // by value: what of the function's it becomes
}

// Graph returns the program to be drawn. times are the times of the steps, nil if
// unknown. With more than limit steps, neighbors share a box: steps of one source
// line first, then the smallest. A limit of 0 is none.
func (p *Program) Graph(n *Names, times []time.Duration, limit int) *sketch.Graph {
	groups := p.groups(limit)
	g := &sketch.Graph{Title: n.Title}
	box := make([]int, len(p.Steps))
	var all time.Duration
	for b, r := range groups {
		for i := r.from; i < r.to; i++ {
			box[i] = b
			if times != nil {
				all += times[i]
			}
		}
	}
	makers := p.makers()
	for b, r := range groups {
		x := p.box(r, n, box, makers)
		if times != nil {
			var sum time.Duration
			for _, d := range times[r.from:r.to] {
				sum += d
			}
			x.Share = sum.Seconds() / max(all.Seconds(), 1e-12)
			x.Time = fmt.Sprintf("%s · %.0f %%", brief(sum), 100*x.Share)
			x.Tip += fmt.Sprintf("\n%s, %.1f %%", sum, 100*x.Share)
		}
		g.Boxes = append(g.Boxes, x)
		seen := map[int]bool{}
		for i := r.from; i < r.to; i++ {
			for k := range p.Steps[i].In {
				v := p.Steps[i].In[k].Value
				if v < 0 || makers[v] < 0 || box[makers[v]] == b || seen[v] {
					continue
				}
				seen[v] = true
				from := box[makers[v]]
				label := fmt.Sprintf("%%%d %s %s of %s", v, p.Values[v].Spec.DType, op.ShapeString(p.Values[v].Spec.Shape), p.Steps[makers[v]].Name())
				if len(groups) < len(p.Steps) { // one lane for all that leaves a box
					label = fmt.Sprintf("of steps %d to %d", groups[from].from, groups[from].to-1)
				}
				e := sketch.Edge{From: from, To: b, Label: label}
				if !slices.Contains(g.Edges, e) {
					g.Edges = append(g.Edges, e)
				}
			}
		}
	}
	steps := fmt.Sprintf("%d steps", len(p.Steps))
	if len(groups) < len(p.Steps) {
		steps += fmt.Sprintf(" in %d boxes", len(groups))
	}
	g.Notes = append(g.Notes, steps)
	if times != nil {
		g.Notes[0] += fmt.Sprintf(", %s a call on the device", brief(all))
	}
	return g
}

// span is steps that share a box.
type span struct{ from, to int }

// groups puts neighbors together until there are at most limit groups.
func (p *Program) groups(limit int) []span {
	l := make([]span, len(p.Steps))
	site := make([]string, len(p.Steps))
	for i := range l {
		l[i] = span{i, i + 1}
		if limit > 0 && len(l) > limit {
			site[i] = p.Steps[i].Site.String()
		}
	}
	if limit <= 0 {
		return l
	}
	for _, any := range []bool{false, true} {
		for len(l) > limit {
			best, size := -1, 0
			for i := 1; i < len(l); i++ {
				a, b := l[i-1], l[i]
				if n := b.to - a.from; (any || site[a.from] == site[b.from]) && (best < 0 || n < size) {
					best, size = i, n
				}
			}
			if best < 0 {
				break
			}
			l[best-1].to = l[best].to
			l = slices.Delete(l, best, best+1)
		}
	}
	return l
}

// box describes the steps of a group.
func (p *Program) box(r span, n *Names, box, makers []int) sketch.Box {
	var x sketch.Box
	var b strings.Builder
	kinds := map[sketch.Kind]int{}
	var ops, sites []string
	for i := r.from; i < r.to; i++ {
		s := &p.Steps[i]
		fmt.Fprintf(&b, "step %d: ", i)
		p.step(&b, s)
		for k := range s.Parts {
			b.WriteString("    ")
			p.step(&b, &s.Parts[k])
		}
		kinds[KindOf(s.Op)]++
		ops = append(ops, s.Name())
		for _, at := range s.Sites() {
			if !slices.Contains(sites, at) {
				sites = append(sites, at)
			}
		}
		for k := range s.In {
			v := s.In[k].Value
			if v >= 0 && makers[v] < 0 && n.Value[v] != "" && !slices.Contains(x.Reads, n.Value[v]) {
				x.Reads = append(x.Reads, n.Value[v])
			}
		}
		s.Outs(func(o *Ref) { x.Writes = append(x.Writes, n.Made[o.Value]...) })
	}
	x.Tip = strings.TrimSuffix(b.String(), "\n")
	const tip = 2000 // letters; the listing has the rest
	if t := []rune(x.Tip); len(t) > tip {
		x.Tip = string(t[:tip]) + "…"
	}
	x.Site = joined(sites)
	for k, c := range kinds {
		if m := kinds[x.Kind]; c > m || c == m && k > x.Kind {
			x.Kind = k
		}
	}
	if r.to-r.from > 1 {
		x.Number, x.Title = fmt.Sprintf("%d–%d", r.from, r.to-1), fmt.Sprintf("%d steps", r.to-r.from)
		x.Parts = counted(ops)
		return x
	}
	s := &p.Steps[r.from]
	x.Number, x.Title = fmt.Sprint(r.from), s.Op.String()
	if len(s.Parts) > 0 {
		x.Title = fmt.Sprintf("%d ops in one pass", len(s.Parts))
		for k := range s.Parts {
			x.Parts = append(x.Parts, s.Parts[k].Op.String())
		}
	}
	x.Makes = makes(s)
	return x
}

// joined lists lines, with the name of a file only where it is another one.
func joined(sites []string) string {
	var b strings.Builder
	file := ""
	for i, s := range sites {
		if i > 0 {
			b.WriteString(", ")
		}
		at := strings.LastIndexByte(s, ':') + 1
		if i > 0 && at > 0 && s[:at] == file {
			b.WriteString(s[at:])
			continue
		}
		file = s[:at]
		b.WriteString(s)
	}
	return b.String()
}

// makes describes the results of a step.
func makes(s *Step) string {
	var l []string
	s.Outs(func(o *Ref) { l = append(l, o.View.DType.String()+" "+op.ShapeString(o.View.Shape)) })
	return "→ " + strings.Join(counted(l), ", ")
}

// counted lists strings in the order of their first appearance, with their number.
func counted(all []string) []string {
	n := map[string]int{}
	var l []string
	for _, s := range all {
		if n[s]++; n[s] == 1 {
			l = append(l, s)
		}
	}
	for i, s := range l {
		if n[s] > 1 {
			l[i] = fmt.Sprintf("%s %d×", s, n[s])
		}
	}
	return l
}

// brief writes a time with about three digits.
func brief(d time.Duration) string {
	switch {
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= 100*time.Microsecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// KindOf returns what an op is to those who look at a picture.
func KindOf(id op.ID) sketch.Kind {
	switch id {
	case op.Linear, op.ConvAct, op.Attend, op.AttendGrad, op.Recurrent, op.RecurrentGrad:
		return sketch.Product
	case op.Blend, op.BlendSquare, op.AdamStep, op.UpdateAll:
		return sketch.Update
	case op.ScaleAll, op.CastAll, op.FusedOps, op.BiasActivate:
		return sketch.Elementwise
	case op.AddNormalize, op.NormalizeGradAdd, op.ActivationGradSum:
		return sketch.Reduction
	}
	switch op.Get(id).Family {
	case op.MatMulFamily, op.ConvFamily:
		return sketch.Product
	case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		if id == op.Copy {
			return sketch.Other
		}
		return sketch.Elementwise
	case op.ReduceFamily, op.FusedFamily, op.PoolFamily:
		return sketch.Reduction
	}
	return sketch.Other
}

// Memory returns the memory plan to be drawn, as the program runs at present.
func (e *Executor) Memory(n *Names) *sketch.Memory {
	plan, donated := e.plan, e.donated
	if e.recorded != nil {
		plan, donated = e.recorded.plan, e.recorded.donated
	}
	p := e.p
	m := &sketch.Memory{Title: n.Title, Arena: plan.Arena}
	m.Notes = []string{fmt.Sprintf("an arena of %s for values of %s in all; %d of them are written over an operand", units.Bytes(plan.Arena), units.Bytes(plan.Sum), plan.Reused)}
	last := p.lastUses()
	result := make([]bool, len(p.Values))
	for _, r := range p.Results {
		if r.Value >= 0 {
			result[r.Value] = true
		}
	}
	ends := map[[2]int]int{} // by offset and last step: 1 + the block
	describe := func(v int) string {
		return fmt.Sprintf("%s %s, %s", p.Values[v].Spec.DType, op.ShapeString(p.Values[v].Spec.Shape), units.Bytes(p.Values[v].Bytes))
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		m.Steps = append(m.Steps, s.Name())
		s.Outs(func(o *Ref) {
			v := o.Value
			if plan.Offset[v] < 0 {
				return
			}
			b := sketch.Block{Kind: KindOf(s.Op), From: i, To: last[v], Offset: plan.Offset[v], Size: round(p.Values[v].Bytes), Label: s.Name()}
			if k := ends[[2]int{b.Offset, i}]; k > 0 {
				m.Blocks[k-1].Taken, b.Over = true, true
			}
			if result[v] {
				b.Kind, b.To = sketch.Result, len(p.Steps)-1
			}
			b.Tip = fmt.Sprintf("%%%d of %s: %s\nin use in steps %d to %d, from byte %d on\n%s", v, s.Name(), describe(v), b.From, b.To, b.Offset, strings.Join(s.Sites(), ", "))
			m.Blocks = append(m.Blocks, b)
			ends[[2]int{b.Offset, b.To}] = len(m.Blocks)
		})
	}
	var place, own sketch.List
	bytes := 0
	for _, d := range donated {
		bytes += p.Values[d.From].Bytes
		place.Lines = append(place.Lines, fmt.Sprintf("%s: %s", cmp.Or(n.Value[d.From], fmt.Sprintf("%%%d", d.From)), describe(d.From)))
	}
	place.Title = fmt.Sprintf("Updated in place: %d variables, %s", len(donated), units.Bytes(bytes))
	bytes = 0
	seen := map[int]bool{}
	for _, r := range p.Results {
		v := r.Value
		if v < 0 || seen[v] || p.Values[v].Kind != Temp || plan.Over[v] >= 0 {
			continue
		}
		seen[v] = true
		bytes += p.Values[v].Bytes
		own.Lines = append(own.Lines, fmt.Sprintf("%s: %s", strings.Join(n.Made[v], ", "), describe(v)))
	}
	own.Title = "Results, with memory of their own: " + units.Bytes(bytes)
	m.Lists = []sketch.List{own, place, {Title: "Not updated in place", Lines: e.refused}}
	return m
}
