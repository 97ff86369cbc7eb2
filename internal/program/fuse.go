package program

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Fuse returns a program that computes the same, to the bit, with elementwise steps
// put together where one reads what another makes: their values then need not go
// through memory. Values keep their numbers; p is not changed. Each fused step lists its
// parts, and each elementwise step that stays alone says why.
//
// Steps are put together over one number of elements. Operands that are broadcast, or
// whose rows are contiguous, are read as they lie. A value that others use too becomes a
// further result. Two steps are kept apart if a step between them needs the first and is
// needed by the second.
func (p *Program) Fuse(d backend.Fuser) *Program {
	f := newFuser(p, d)
	for i := range p.Steps {
		f.join(i)
	}
	return f.program()
}

// fuser is the state of Fuse.
type fuser struct {
	p      *Program
	device backend.Fuser
	maker  []int    // by value: the step that makes it, or -1
	users  [][]int  // by value: the steps that read it
	kept   []bool   // by value: it is a result of the program
	group  []*group // by step
	alone  []string // by step
	search int
}

// group is steps that become one.
type group struct {
	steps []int // ascending
	shape []int
	open  bool // elementwise: others may join
	mark  int  // the last search that was here
}

// last is where the group stands.
func (g *group) last() int { return g.steps[len(g.steps)-1] }

func newFuser(p *Program, d backend.Fuser) *fuser {
	f := &fuser{p: p, device: d, maker: make([]int, len(p.Values)), users: make([][]int, len(p.Values)), kept: make([]bool, len(p.Values)),
		group: make([]*group, len(p.Steps)), alone: make([]string, len(p.Steps))}
	for i := range f.maker {
		f.maker[i] = -1
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		for k := range s.In {
			if v := s.In[k].Value; v >= 0 && (len(f.users[v]) == 0 || f.users[v][len(f.users[v])-1] != i) {
				f.users[v] = append(f.users[v], i)
			}
		}
		s.Outs(func(r *Ref) { f.maker[r.Value] = i })
		f.group[i] = &group{steps: []int{i}, shape: s.Out.View.Shape}
		if op.Get(s.Op).Elementwise() {
			f.alone[i] = f.refusal(s)
			f.group[i].open = f.alone[i] == ""
		}
	}
	for _, r := range p.Results {
		if r.Value >= 0 {
			f.kept[r.Value] = true
		}
	}
	return f
}

// refusal returns "" if the elementwise step may be part of a fused one, else why not.
func (f *fuser) refusal(s *Step) string {
	c := backend.Call{Op: s.Op, In: make([]backend.View, len(s.In))}
	variable := false
	for i := range s.In {
		c.In[i] = s.In[i].View
		variable = variable || s.In[i].Value >= 0
		if s.In[i].Value >= 0 && scattered(&s.In[i].View) {
			return "an operand's rows are not contiguous"
		}
	}
	switch {
	case s.Late != nil:
		return "its parameters change from run to run"
	case !variable:
		return "its operands are constants"
	case s.Attrs != nil && s.Op != op.CastTo:
		return "it has parameters, which fused steps have not"
	case !f.device.Fuses(s.Op, c.KernelType(), s.Out.View.DType):
		return "the device has no fused form of it"
	}
	return ""
}

// scattered reports whether neighbors of the last axis lie apart. Kernels of one op
// read such operands in tiles, which fused ones do not.
func scattered(v *backend.View) bool {
	for i := len(v.Shape) - 1; i >= 0; i-- {
		if v.Shape[i] != 1 {
			return v.Strides[i] != 0 && v.Strides[i] != 1
		}
	}
	return false
}

// join puts step i together with the steps whose results it reads, where that is
// possible.
func (f *fuser) join(i int) {
	if !f.group[i].open {
		return
	}
	why := "no elementwise step makes its operands or uses its result"
	in := f.p.Steps[i].In
	for k := len(in) - 1; k >= 0; k-- {
		if in[k].Value < 0 || f.maker[in[k].Value] < 0 {
			continue
		}
		g, h := f.group[f.maker[in[k].Value]], f.group[i]
		if g == h || !g.open {
			continue
		}
		if w := f.merge(g, h); w != "" {
			why = w
			if len(g.steps) == 1 {
				f.alone[g.steps[0]] = w
			}
		}
	}
	if len(f.group[i].steps) == 1 {
		f.alone[i] = why
	}
}

// merge makes one group of two, where the later one reads results of the other. It
// returns "" or why that cannot be.
func (f *fuser) merge(g, h *group) string {
	shape, ok := f.common(g, h)
	if !ok {
		return "one of it and its elementwise neighbor reads the other in another order, or broadcast"
	}
	m := &group{steps: append(append(make([]int, 0, len(g.steps)+len(h.steps)), g.steps...), h.steps...), shape: shape, open: true}
	slices.Sort(m.steps)
	if len(m.steps) > op.FusedNodes {
		return "its neighbors are as many steps as one can have"
	}
	f.adopt(m)
	in, out := f.ends(m)
	switch {
	case len(in) > op.FusedInputs:
		f.adopt(g)
		f.adopt(h)
		return "together with its neighbors it would have too many operands"
	case len(out) > op.FusedResults:
		f.adopt(g)
		f.adopt(h)
		return "together with its neighbors it would have too many results"
	case f.cyclic(m):
		f.adopt(g)
		f.adopt(h)
		return "a step that is not elementwise stands between it and its elementwise neighbor"
	}
	for _, s := range m.steps {
		f.alone[s] = ""
	}
	return ""
}

func (f *fuser) adopt(g *group) {
	for _, s := range g.steps {
		f.group[s] = g
	}
}

// common returns the shape over which both groups can be computed: the shape of both,
// or that of the group whose operands are not all in the order of its elements.
func (f *fuser) common(g, h *group) ([]int, bool) {
	n := op.Elements(g.shape)
	if n != op.Elements(h.shape) {
		return nil, false
	}
	for _, pair := range [][2]*group{{g, h}, {h, g}} { // what one reads of the other, it reads element by element
		for _, i := range pair[1].steps {
			for k := range f.p.Steps[i].In {
				r := &f.p.Steps[i].In[k]
				if r.Value < 0 || f.maker[r.Value] < 0 || f.group[f.maker[r.Value]] != pair[0] {
					continue
				}
				if r.View.Offset != 0 || r.View.Elements() != n || !r.View.Contiguous() {
					return nil, false
				}
			}
		}
	}
	switch {
	case slices.Equal(g.shape, h.shape), f.flat(h):
		return g.shape, true
	case f.flat(g):
		return h.shape, true
	}
	return nil, false
}

// flat reports whether every operand of the group from outside is contiguous or one
// element, so that its shape does not matter.
func (f *fuser) flat(g *group) bool {
	for _, i := range g.steps {
		for k := range f.p.Steps[i].In {
			r := &f.p.Steps[i].In[k]
			if r.Value >= 0 && !f.inside(g, r) && !r.View.Contiguous() && !uniform(&r.View) {
				return false
			}
		}
	}
	return true
}

func uniform(v *backend.View) bool {
	for i, n := range v.Shape {
		if n != 1 && v.Strides[i] != 0 {
			return false
		}
	}
	return true
}

// inside reports whether a step of the group makes r.
func (f *fuser) inside(g *group, r *Ref) bool {
	return r.Value >= 0 && f.maker[r.Value] >= 0 && f.group[f.maker[r.Value]] == g
}

// ends returns what the group reads from outside, over its shape, and the steps whose
// results are used outside.
func (f *fuser) ends(g *group) (in []Ref, out []int) {
	for _, i := range g.steps {
		s := &f.p.Steps[i]
		for k := range s.In {
			if f.inside(g, &s.In[k]) {
				continue
			}
			r := over(s.In[k], g.shape)
			if !slices.ContainsFunc(in, func(x Ref) bool { return sameRef(&x, &r) }) {
				in = append(in, r)
			}
		}
		used := f.kept[s.Out.Value]
		for _, u := range f.users[s.Out.Value] {
			used = used || f.group[u] != g
		}
		if used {
			out = append(out, i)
		}
	}
	if len(out) == 0 { // nobody uses any of it
		out = append(out, g.last())
	}
	return in, out
}

// over returns an operand over a shape: its own, or one with as many elements, and then
// the operand is contiguous or one element.
func over(r Ref, shape []int) Ref {
	if slices.Equal(r.View.Shape, shape) {
		return r
	}
	if r.Value < 0 || uniform(&r.View) && r.View.Elements() != 1 {
		r.View.Strides = make([]int, len(shape))
	} else {
		r.View.Strides = op.Strides(shape)
	}
	r.View.Shape = shape
	return r
}

func sameRef(x, y *Ref) bool {
	return x.Value == y.Value && x.View.Bits == y.View.Bits && x.View.Offset == y.View.Offset && x.View.DType == y.View.DType && slices.Equal(x.View.Strides, y.View.Strides)
}

// cyclic reports whether the group needs something from outside that needs the group.
func (f *fuser) cyclic(g *group) bool {
	f.search++
	g.mark = f.search
	var search func(at *group) bool
	search = func(at *group) bool {
		for _, i := range at.steps {
			for k := range f.p.Steps[i].In {
				v := f.p.Steps[i].In[k].Value
				if v < 0 || f.maker[v] < 0 {
					continue
				}
				next := f.group[f.maker[v]]
				switch {
				case next == g:
					if at != g {
						return true
					}
				case next.mark != f.search:
					next.mark = f.search
					if search(next) {
						return true
					}
				}
			}
		}
		return false
	}
	return search(g)
}

// program returns the program with a step for each group, in the place of the group's
// last step.
func (f *fuser) program() *Program {
	q := &Program{Values: f.p.Values, Results: f.p.Results}
	done := make(map[*group]bool, len(f.p.Steps))
	var emit func(g *group)
	emit = func(g *group) {
		done[g] = true
		for _, i := range g.steps { // what the group needs may stand behind it
			for k := range f.p.Steps[i].In {
				if v := f.p.Steps[i].In[k].Value; v >= 0 && f.maker[v] >= 0 && !done[f.group[f.maker[v]]] {
					emit(f.group[f.maker[v]])
				}
			}
		}
		q.Steps = append(q.Steps, f.step(g))
	}
	for i := range f.p.Steps {
		if g := f.group[i]; !done[g] && i == g.last() {
			emit(g)
		}
	}
	return q
}

// step returns the group as a step.
func (f *fuser) step(g *group) Step {
	if len(g.steps) == 1 {
		s := f.p.Steps[g.steps[0]]
		s.Alone = f.alone[g.steps[0]]
		return s
	}
	in, out := f.ends(g)
	e := &op.Expression{}
	for i := range in {
		e.Inputs = append(e.Inputs, in[i].View.DType)
	}
	s := Step{Op: op.FusedOps, Attrs: e, In: in, Site: f.p.Steps[g.last()].Site}
	node := make(map[int]int, len(g.steps)) // by value
	for _, i := range g.steps {
		part := f.p.Steps[i]
		n := op.Node{Op: part.Op, Attrs: part.Attrs, DType: part.Out.View.DType}
		for k := range part.In {
			if f.inside(g, &part.In[k]) {
				n.In = append(n.In, op.Operand{Node: true, Index: node[part.In[k].Value]})
				continue
			}
			r := over(part.In[k], g.shape)
			n.In = append(n.In, op.Operand{Index: slices.IndexFunc(in, func(x Ref) bool { return sameRef(&x, &r) })})
		}
		node[part.Out.Value] = len(e.Nodes)
		if slices.Contains(out, i) {
			e.Results = append(e.Results, len(e.Nodes))
			o := part.Out
			o.View.Shape, o.View.Strides = g.shape, op.Strides(g.shape)
			if len(e.Results) == 1 {
				s.Out = o
			} else {
				s.More = append(s.More, o)
			}
		}
		e.Nodes = append(e.Nodes, n)
		s.Parts = append(s.Parts, part)
	}
	return s
}
