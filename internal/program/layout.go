package program

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
)

// Arrange returns a program that computes the same with images channels last where that pays
// on device d: (N, C, H, W) stay the shapes, but the channels of a pixel lie beside each
// other. Values between steps that can read and write that layout have no other copies; what
// enters or leaves such a region is converted by separate steps. An elementwise step does not
// see the difference: it runs over (N, H, W, C). Results lie as before. Values keep their
// numbers, and new ones stand behind them; p is not changed.
//
// A region is turned as a whole or not at all. What it saves is what the device says of
// its steps, and what it costs are the bytes of the images that must be converted. Both
// depend on shapes and types alone.
func (p *Program) Arrange(d backend.Arranger) *Program {
	how := layout.Now()
	if how == layout.Never {
		return p
	}
	a := &arranger{p: p, device: d, maker: p.makers(), how: how}
	if !a.look() {
		return p
	}
	return a.program()
}

// arranger is the state of Arrange.
type arranger struct {
	p      *Program
	device backend.Arranger
	how    layout.Setting
	maker  []int  // by value
	pinned []bool // by value: a result, which lies in order

	can    []bool // by step: its images may lie channels last
	asked  []bool // by step: it was the device that said so
	saves  []int  // by step: bytes
	parent []int  // by step: another one of its region, or itself
	turned []bool // by step

	q       *Program
	last    map[int]image    // by value of p: where it lies channels last, all of it
	inLine  map[int]int      // by value of p: the value of q that holds it in order, if it lies otherwise itself
	copies  map[int][]copied // by value of p: parts of it channels last
	filters map[int][]Ref    // by the step that makes them, -1 for none: filters that are wanted channels last
}

// image is a value of the new program that lies channels last, and how it lay before.
type image struct {
	value int
	view  backend.View
}

// copied is a view of a value and a copy of what it shows.
type copied struct{ view, copy Ref }

// look finds the regions, and reports whether any is worth it.
func (a *arranger) look() bool {
	steps := a.p.Steps
	a.can, a.asked = make([]bool, len(steps)), make([]bool, len(steps))
	a.saves, a.parent, a.turned = make([]int, len(steps)), make([]int, len(steps)), make([]bool, len(steps))
	any := false
	for i := range steps {
		a.parent[i] = i
		a.ask(i)
		any = any || a.saves[i] > 0 || a.asked[i] && a.how == layout.Always
	}
	if !any {
		return false
	}
	a.pinned = make([]bool, len(a.p.Values))
	for _, r := range a.p.Results {
		if r.Value >= 0 {
			a.pinned[r.Value] = true
		}
	}
	for i := range steps {
		a.images(i, func(k int) {
			if m, ok := a.within(&steps[i].In[k]); ok {
				a.parent[a.region(m)] = a.region(i)
			}
		})
	}
	gain := make([]int, len(steps)) // by region
	for i := range steps {
		if gain[a.region(i)] += a.saves[i]; a.how == layout.Always && a.asked[i] {
			gain[a.region(i)] = 1 << 60
		}
	}
	a.charge(gain)
	any = false
	for i := range steps {
		a.turned[i] = a.can[i] && gain[a.region(i)] > 0
		any = any || a.turned[i]
	}
	return any
}

// ask finds out whether a step can have its images channels last.
func (a *arranger) ask(i int) {
	s := &a.p.Steps[i]
	switch {
	case len(s.Out.View.Shape) != 4 || s.Out.View.Elements() == 0:
	case op.Get(s.Op).Elementwise():
		a.can[i] = layout.IsImage(s.Out.View.Shape)
	case s.Op == op.Concat:
		a.can[i] = layout.IsImage(s.Out.View.Shape) && s.Late == nil
	default:
		c := backend.Call{Op: s.Op, Attrs: s.Attrs, Out: s.Out.View}
		for k := range s.In {
			c.In = append(c.In, s.In[k].View)
		}
		if s.Late == nil {
			a.asked[i], a.saves[i] = a.device.Arranges(&c)
			a.can[i] = a.asked[i]
		}
	}
}

// images calls f with the operands of a step that must lie channels last if the step, which
// can, has its images channels last.
func (a *arranger) images(i int, f func(k int)) {
	if !a.can[i] {
		return
	}
	for k := range a.p.Steps[i].In {
		if r := &a.p.Steps[i].In[k]; r.Value >= 0 && layout.IsImage(r.View.Shape) && !(op.Get(a.p.Steps[i].Op).Elementwise() && layout.Spread(&r.View)) {
			f(k)
		}
	}
}

// within returns the step that makes what r is a part of, if it can make it channels last.
func (a *arranger) within(r *Ref) (step int, ok bool) {
	m := a.maker[r.Value]
	if m < 0 || !a.makesImage(m) || a.p.Steps[m].Out.Value != r.Value {
		return m, false
	}
	_, ok = layout.Box(r.View, a.p.Steps[m].Out.View.Shape)
	return m, ok
}

// makesImage reports whether the first result of a step can lie channels last.
func (a *arranger) makesImage(i int) bool {
	return a.can[i] && layout.IsImage(a.p.Steps[i].Out.View.Shape)
}

func (a *arranger) region(i int) int {
	for a.parent[i] != i {
		a.parent[i] = a.parent[a.parent[i]]
		i = a.parent[i]
	}
	return i
}

// charge takes what conversions cost from the regions' gains.
func (a *arranger) charge(gain []int) {
	type border struct{ region, value int }
	paid := map[border]bool{}
	pay := func(region, value, bytes int) {
		if b := (border{region, value}); !paid[b] {
			paid[b] = true
			gain[region] -= bytes
		}
	}
	for i := range a.p.Steps {
		s := &a.p.Steps[i]
		inside := make([]bool, len(s.In)) // read as it lies
		a.images(i, func(k int) {
			if m, ok := a.within(&s.In[k]); ok && a.region(m) == a.region(i) {
				inside[k] = true
				return
			}
			pay(a.region(i), s.In[k].Value, size(&s.In[k].View))
		})
		for k := range s.In {
			r := &s.In[k]
			if r.Value < 0 || inside[k] || a.maker[r.Value] < 0 {
				continue
			}
			if m := a.maker[r.Value]; a.makesImage(m) && a.p.Steps[m].Out.Value == r.Value && !a.readsEither(s, r) {
				pay(a.region(m), -1-r.Value, a.p.Values[r.Value].Bytes)
			}
		}
		if a.makesImage(i) && a.pinned[s.Out.Value] {
			pay(a.region(i), -1-s.Out.Value, a.p.Values[s.Out.Value].Bytes)
		}
	}
}

// readsEither reports whether the step, which is not turned, reads an image that lies
// channels last where it is: a reduction and a list of conversions do.
func (a *arranger) readsEither(s *Step, r *Ref) bool {
	if op.Get(s.Op).Family != op.ReduceFamily && s.Op != op.CastAll {
		return false
	}
	m := a.maker[r.Value]
	if m < 0 || a.p.Steps[m].Out.Value != r.Value {
		return false
	}
	_, ok := layout.Box(r.View, a.p.Steps[m].Out.View.Shape)
	return ok
}

// program returns the program with regions turned.
func (a *arranger) program() *Program {
	a.q = &Program{Values: slices.Clone(a.p.Values), Results: a.p.Results}
	a.last, a.inLine, a.copies = map[int]image{}, map[int]int{}, map[int][]copied{}
	a.wanted()
	a.convert(a.filters[-1])
	for i := range a.p.Steps {
		s := a.p.Steps[i]
		s.In = slices.Clone(s.In)
		switch {
		case !a.turned[i]:
			a.plainOperands(&s)
			if s.Op == op.CastAll {
				a.turnResults(&s, a.filters[i])
			}
			a.q.Steps = append(a.q.Steps, s)
		case layout.Follows(s.Op):
			for k := range s.In {
				if s.In[k].Value < 0 {
					s.In[k].View = layout.Pixels(s.In[k].View)
				} else {
					s.In[k] = a.turnedOperand(&s, s.In[k])
				}
			}
			if c, ok := s.Attrs.(op.Axis); ok && s.Op == op.Concat {
				s.Attrs = op.Axis{Axis: layout.PixelAxis(c.Axis)}
			}
			s.Out.View = inOrder(layout.Pixels(s.Out.View))
			a.add(s, a.p.Steps[i].Out.View)
		default:
			for k := range s.In {
				if s.In[k].Value >= 0 && layout.IsImage(s.In[k].View.Shape) {
					s.In[k] = a.channelsLast(&s, s.In[k])
				} else {
					s.In[k] = a.plain(&s, s.In[k])
				}
			}
			if layout.IsImage(s.Out.View.Shape) {
				s.Out.View.Strides = layout.Strides(s.Out.View.Shape)
				a.add(s, a.p.Steps[i].Out.View)
			} else {
				a.q.Steps = append(a.q.Steps, s)
			}
		}
	}
	return a.q
}

// inOrder returns v without gaps.
func inOrder(v backend.View) backend.View {
	v.Offset, v.Strides = 0, op.Strides(v.Shape)
	return v
}

// wanted finds the filters of turned convolutions that are there before the first of
// them or are converted from another type, all at once.
func (a *arranger) wanted() {
	a.filters = map[int][]Ref{}
	seen := map[int]bool{}
	for i := range a.p.Steps {
		s := &a.p.Steps[i]
		if !a.turned[i] || s.Op != op.Conv2D && s.Op != op.ConvGradInput {
			continue
		}
		r := s.In[1]
		if r.Value < 0 || seen[r.Value] || !layout.IsImage(r.View.Shape) || r.View.Offset != 0 || !r.View.Contiguous() || size(&r.View) != a.p.Values[r.Value].Bytes {
			continue
		}
		if m := a.maker[r.Value]; m < 0 && a.p.Values[r.Value].Kind != Temp || m >= 0 && a.p.Steps[m].Op == op.CastAll {
			seen[r.Value] = true
			a.filters[m] = append(a.filters[m], r)
		}
	}
}

// convert appends steps that copy filters, in one go for each type.
func (a *arranger) convert(filters []Ref) {
	for len(filters) > 0 {
		t := filters[0].View.DType
		var from, rest []Ref
		for _, r := range filters {
			if r.View.DType != t {
				rest = append(rest, r)
				continue
			}
			to := Ref{Value: a.value(r.Value), View: r.View}
			to.View.Strides = layout.Strides(r.View.Shape)
			a.copies[r.Value] = append(a.copies[r.Value], copied{r, to})
			from = append(from, Ref{r.Value, layout.Pixels(r.View)})
		}
		a.copyAll(nil, from, func(k int) int { return a.copies[from[k].Value][0].copy.Value })
		filters = rest
	}
}

// turnResults makes a list of conversions write some of its results channels last.
func (a *arranger) turnResults(s *Step, filters []Ref) {
	s.More = slices.Clone(s.More)
	for k := range s.In {
		out := s.result(k)
		if !slices.ContainsFunc(filters, func(r Ref) bool { return r.Value == out.Value }) || a.pinned[out.Value] {
			continue
		}
		a.last[out.Value] = image{out.Value, out.View}
		out.View, s.In[k].View = inOrder(layout.Pixels(out.View)), layout.Pixels(s.In[k].View)
	}
}

// add appends a step whose first result, which was like view, lies channels last. If it is
// a result of the program it is copied.
func (a *arranger) add(s Step, view backend.View) {
	v := s.Out.Value
	if !a.pinned[v] {
		a.last[v] = image{v, view}
		a.q.Steps = append(a.q.Steps, s)
		return
	}
	s.Out.Value = a.value(v)
	a.last[v], a.inLine[v] = image{s.Out.Value, view}, v
	a.q.Steps = append(a.q.Steps, s)
	a.copyAll(&s, []Ref{a.last[v].ref()}, func(int) int { return v })
}

// ref returns all of the image.
func (m image) ref() Ref {
	v := m.view
	v.Strides = layout.Strides(v.Shape)
	return Ref{m.value, v}
}

// value adds a value like v.
func (a *arranger) value(v int) int {
	a.q.Values = append(a.q.Values, Value{Kind: Temp, Spec: a.p.Values[v].Spec, Bytes: a.p.Values[v].Bytes})
	return len(a.q.Values) - 1
}

// copyAll appends a step that copies views of one type, in order, to the starts of values.
func (a *arranger) copyAll(s *Step, from []Ref, to func(k int) int) {
	if len(from) == 0 {
		return
	}
	var c Step
	if s != nil {
		c.Site = s.Site
	}
	for k := range from {
		out := Ref{to(k), inOrder(from[k].View)}
		if k == 0 {
			c.Out = out
		} else {
			c.More = append(c.More, out)
		}
	}
	if c.Op, c.In = op.Copy, from; len(from) > 1 {
		c.Op, c.Attrs = op.CastAll, op.Cast{To: from[0].View.DType}
	}
	a.q.Steps = append(a.q.Steps, c)
}

// plainOperands replaces the operands of a step that is not turned. What must be copied
// for an op on lists is copied in one go.
func (a *arranger) plainOperands(s *Step) {
	lists := map[dtype.DType][]int{} // values
	for k := range s.In {
		v := s.In[k].Value
		if _, ok := a.last[v]; !ok || !s.In[k].View.DType.IsFloat() || a.readsEither(s, &s.In[k]) {
			continue
		}
		if _, ok := a.inLine[v]; !ok {
			a.inLine[v] = a.value(v)
			lists[s.In[k].View.DType] = append(lists[s.In[k].View.DType], v)
		}
	}
	for _, t := range dtype.All {
		var from []Ref
		for _, v := range lists[t] {
			from = append(from, a.last[v].ref())
		}
		a.copyAll(s, from, func(k int) int { return a.inLine[lists[t][k]] })
	}
	for k := range s.In {
		s.In[k] = a.plain(s, s.In[k])
	}
}

// plain returns an operand of a step that is not turned.
func (a *arranger) plain(s *Step, r Ref) Ref {
	last, ok := a.last[r.Value]
	if r.Value < 0 || !ok {
		return r
	}
	if a.readsEither(s, &r) {
		r.View, _ = layout.Box(r.View, last.view.Shape)
		r.Value = last.value
		return r
	}
	if _, ok := a.inLine[r.Value]; !ok {
		to := a.value(r.Value)
		a.copyAll(s, []Ref{last.ref()}, func(int) int { return to })
		a.inLine[r.Value] = to
	}
	r.Value = a.inLine[r.Value]
	return r
}

// channelsLast returns an image, whose view stays (N, C, H, W), that lies channels last.
func (a *arranger) channelsLast(s *Step, r Ref) Ref {
	if last, ok := a.last[r.Value]; ok {
		if v, ok := layout.Box(r.View, last.view.Shape); ok {
			return Ref{last.value, v}
		}
	}
	for _, c := range a.copies[r.Value] {
		if sameRef(&c.view, &r) && slices.Equal(c.view.View.Shape, r.View.Shape) {
			return c.copy
		}
	}
	from := a.plain(s, r)
	from.View = layout.Pixels(from.View)
	a.q.Values = append(a.q.Values, Value{Kind: Temp, Spec: op.Spec{DType: r.View.DType, Shape: r.View.Shape}, Bytes: size(&r.View)})
	to := Ref{len(a.q.Values) - 1, r.View}
	to.View.Offset, to.View.Strides = 0, layout.Strides(r.View.Shape)
	a.copyAll(s, []Ref{from}, func(int) int { return to.Value })
	a.copies[r.Value] = append(a.copies[r.Value], copied{r, to})
	return to
}

// turnedOperand returns an operand of a step that runs over (N, H, W, C). One that is
// broadcast is read as it lies.
func (a *arranger) turnedOperand(s *Step, r Ref) Ref {
	if layout.IsImage(r.View.Shape) && !(op.Get(s.Op).Elementwise() && layout.Spread(&r.View)) {
		r = a.channelsLast(s, r)
	} else {
		r = a.plain(s, r)
	}
	r.View = layout.Pixels(r.View)
	return r
}
