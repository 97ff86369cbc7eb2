package program

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
)

// EndNorms returns the program with batch normalizations of images that lie channels last
// joined with what follows them, where the device can: an image that is added, and ReLU or
// ReLU6. Each was a pass over memory. In the gradients, the activation's gradient is joined
// where nothing was added. The bits stay the same. p, which Arrange returned, is not
// changed.
func (p *Program) EndNorms(d backend.Arranger) *Program {
	last := func(s Step) bool { return s.Op == op.BatchNorm && s.Out.View.ChannelsLast() }
	if !slices.ContainsFunc(p.Steps, last) {
		return p
	}
	n := &ender{p: &Program{Values: p.Values, Steps: slices.Clone(p.Steps), Results: p.Results}, device: d, gone: make([]bool, len(p.Steps)), made: map[int]activated{}}
	n.look()
	for i := range n.p.Steps {
		if !n.gone[i] && last(n.p.Steps[i]) {
			n.forward(i)
		}
	}
	for i := range n.p.Steps {
		if n.p.Steps[i].Op == op.BatchNormGrad {
			n.backward(i)
		}
	}
	i := -1
	n.p.Steps = slices.DeleteFunc(n.p.Steps, func(Step) bool { i++; return n.gone[i] })
	return n.p
}

// ender is the state of EndNorms.
type ender struct {
	p      *Program
	device backend.Arranger
	gone   []bool  // by step: another one has its result
	maker  []int   // by value
	users  [][]int // by value
	kept   []bool  // by value: a result of the program
	made   map[int]activated
}

// activated is a value that is the activation of a normalization.
type activated struct {
	norm Step
	act  op.ID
}

func (n *ender) look() {
	n.maker, n.users, n.kept = slices.Repeat([]int{-1}, len(n.p.Values)), make([][]int, len(n.p.Values)), make([]bool, len(n.p.Values))
	for i := range n.p.Steps {
		if n.gone[i] {
			continue
		}
		n.p.Steps[i].Outs(func(r *Ref) { n.maker[r.Value] = i })
		for _, r := range n.p.Steps[i].In {
			if r.Value >= 0 {
				n.users[r.Value] = append(n.users[r.Value], i)
			}
		}
	}
	for _, r := range n.p.Results {
		if r.Value >= 0 {
			n.kept[r.Value] = true
		}
	}
}

// only returns the one step that reads a value, or -1.
func (n *ender) only(v int) int {
	if n.kept[v] || len(n.users[v]) != 1 {
		return -1
	}
	return n.users[v][0]
}

// all reports whether r, an operand of an elementwise step, is all of an image of a shape, as
// it lies channels last.
func all(r *Ref, shape []int) bool {
	return r.Value >= 0 && r.View.Offset == 0 && r.View.Contiguous() && slices.Equal(r.View.Shape, []int{shape[0], shape[2], shape[3], shape[1]})
}

// asImage returns r, of an elementwise step, with the axes (N, C, H, W).
func asImage(r Ref, shape []int) Ref {
	r.View.Shape, r.View.Strides = shape, layout.Strides(shape)
	return r
}

// forward joins what follows step i.
func (n *ender) forward(i int) {
	s := n.p.Steps[i]
	a, ok := s.Attrs.(op.Normalize)
	if !ok || len(s.More) < 2 || !s.In[0].View.ChannelsLast() {
		return
	}
	e, shape, added, act, out := op.NormEpilogue{Normalize: a}, s.Out.View.Shape, -1, -1, s.Out.Value
	in := slices.Clone(s.In)
	if k := n.only(out); k >= 0 && n.p.Steps[k].Op == op.Add {
		x, y := &n.p.Steps[k].In[0], &n.p.Steps[k].In[1]
		if y.Value == out {
			x, y = y, x
		}
		// What is added must be there already; if it is another normalization, that one does it.
		if all(x, shape) && all(y, shape) && x.Value != y.Value && n.maker[y.Value] < i {
			e.Add, added, out = true, k, n.p.Steps[k].Out.Value
			in = append(in, asImage(*y, shape))
		}
	}
	if k := n.only(out); k >= 0 && (n.p.Steps[k].Op == op.Relu || n.p.Steps[k].Op == op.Relu6) && all(&n.p.Steps[k].In[0], shape) {
		e.Act, act, out = n.p.Steps[k].Op, k, n.p.Steps[k].Out.Value
	}
	if added < 0 && act < 0 || !n.can(op.BatchNorm, e, in, s.Out.View) {
		return
	}
	if !e.Add {
		n.made[out] = activated{s, e.Act}
	}
	s.Attrs, s.In = e, in
	for _, k := range []int{added, act} {
		if k >= 0 {
			n.gone[k] = true
		}
	}
	s.Out.Value = out
	n.p.Steps[i] = s
	n.look()
}

// can asks the device.
func (n *ender) can(id op.ID, a op.Attrs, in []Ref, out backend.View) bool {
	c := backend.Call{Op: id, Attrs: a, Out: out}
	for k := range in {
		c.In = append(c.In, in[k].View)
	}
	ok, _ := n.device.Arranges(&c)
	return ok
}

// backward joins the gradient of an activation with step i, that of the normalization.
func (n *ender) backward(i int) {
	s := n.p.Steps[i]
	a, ok := s.Attrs.(op.Normalize)
	m := n.maker[s.In[0].Value]
	if !ok || m < 0 || n.only(s.In[0].Value) != i || !s.Out.View.ChannelsLast() || !s.In[1].View.ChannelsLast() {
		return
	}
	g, shape := &n.p.Steps[m], s.Out.View.Shape
	f, ok := n.made[operand(g, 1)]
	if !ok || g.Op != op.ReluGrad && g.Op != op.Relu6Grad || (g.Op == op.ReluGrad) != (f.act == op.Relu) || !all(&g.In[0], shape) || !all(&g.In[1], shape) {
		return
	}
	fa := f.norm.Attrs.(op.Normalize)
	at := 2 + op.Count(a.Weight)
	// It is the gradient of that normalization: the same x, weight and statistics.
	if !sameRef(&s.In[1], &f.norm.In[0]) || a.Weight != fa.Weight || a.Weight && !sameRef(&s.In[2], &f.norm.In[1]) ||
		s.In[at].Value != f.norm.More[0].Value || s.In[at+1].Value != f.norm.More[1].Value {
		return
	}
	e := op.NormEpilogue{Normalize: a, Act: f.act}
	if e.Bias = fa.Bias; e.Bias {
		s.In = slices.Insert(slices.Clone(s.In), at, f.norm.In[1+op.Count(fa.Weight)])
	} else {
		s.In = slices.Clone(s.In)
	}
	s.In[0] = asImage(g.In[0], shape)
	if !n.can(op.BatchNormGrad, e, s.In, s.Out.View) {
		return
	}
	s.Attrs = e
	n.p.Steps[i], n.gone[m] = s, true
	n.look()
}

// operand returns the value of operand k of a step, -1 if it has none.
func operand(s *Step, k int) int {
	if k >= len(s.In) {
		return -1
	}
	return s.In[k].Value
}
