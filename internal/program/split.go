package program

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// A function that computes on several devices is cut into programs of one device each, with
// the copies between them. So everything that plans, fuses and records programs sees only
// one device, and devices that queue work at the same time, as they would without a program.

// Piece is a copy from one device to another, or what one device computes between copies.
type Piece struct {
	Move *Step // the copy; nil for a part

	// Part is a program on Device. It has the values of the whole one, by the same numbers:
	// what it does not use is empty, and what other pieces have made is an argument. Its
	// results include what later pieces need.
	Device backend.Device
	Part   *Program

	Ends []int // values between pieces that nobody needs behind this one
}

// moves reports whether a step copies from one device to another.
func (p *Program) moves(s *Step) bool {
	return s.Op == op.Copy && s.In[0].Value >= 0 && p.Values[s.In[0].Value].On != p.Values[s.Out.Value].On
}

// Devices returns the devices that the program's steps run on, in the order of their first
// step.
func (p *Program) Devices() []backend.Device {
	var l []backend.Device
	add := func(v int) {
		if d := p.Values[v].On; !slices.Contains(l, d) {
			l = append(l, d)
		}
	}
	for i := range p.Steps {
		if s := &p.Steps[i]; p.moves(s) {
			add(s.In[0].Value)
		}
		add(p.Steps[i].Out.Value)
	}
	return l
}

// splitting is a program on its way to pieces.
type splitting struct {
	*Program
	done []Piece
	open []*opened // by the order of their first step
	by   []*opened // by value: the part that makes it
}

// opened is a part that steps are added to.
type opened struct {
	device backend.Device
	steps  []Step
	after  int  // pieces that were done when it was opened
	works  bool // it has more to do than elementwise steps
	closed bool
}

// Split cuts a program of several devices. A part takes the steps of its device as they
// come, and ends where one of its results is copied. If it has more to do than elementwise
// steps it also ends where a step needs what was copied since it was opened: so the device
// begins, rather than wait for the copy. Sums of gradients that arrive one after the other
// stay together.
func (p *Program) Split() []Piece {
	s := &splitting{Program: p, by: make([]*opened, len(p.Values))}
	s.loose()
	arrived := make([]int, len(p.Values)) // by value: 1 + the copy that makes it
	for i := range p.Steps {
		x := &p.Steps[i]
		if p.moves(x) {
			if from := s.by[x.In[0].Value]; from != nil {
				s.end(from)
			}
			s.done = append(s.done, Piece{Move: x})
			arrived[x.Out.Value] = len(s.done)
			continue
		}
		part := s.part(p.Values[x.Out.Value].On)
		if part.works && slices.ContainsFunc(x.In, func(r Ref) bool { return r.Value >= 0 && arrived[r.Value] > part.after }) {
			s.end(part)
			part = s.part(part.device)
		}
		part.steps, part.works = append(part.steps, *x), part.works || !op.Get(x.Op).Elementwise()
		x.Outs(func(r *Ref) { s.by[r.Value] = part })
	}
	for len(s.open) > 0 {
		s.end(s.open[0])
	}
	s.connect()
	return s.done
}

// loose makes parts of results without elements, which no step makes.
func (s *splitting) loose() {
	makers := s.makers()
	for i, r := range s.Results {
		v := r.Value
		if v < 0 || s.Values[v].Kind != Temp || makers[v] >= 0 || slices.ContainsFunc(s.Results[:i], func(x Ref) bool { return x.Value == v }) {
			continue
		}
		q := &Program{Values: make([]Value, len(s.Values)), Results: []Ref{r}}
		q.Values[v] = s.Values[v]
		s.done = append(s.done, Piece{Device: s.Values[v].On, Part: q})
	}
}

// part returns the open part of a device.
func (s *splitting) part(d backend.Device) *opened {
	for _, o := range s.open {
		if o.device == d {
			return o
		}
	}
	o := &opened{device: d, after: len(s.done)}
	s.open = append(s.open, o)
	return o
}

// end makes a part that is open a piece.
func (s *splitting) end(o *opened) {
	if o.closed {
		return
	}
	o.closed = true
	s.open = slices.DeleteFunc(s.open, func(x *opened) bool { return x == o })
	s.done = append(s.done, Piece{Device: o.device, Part: &Program{Values: make([]Value, len(s.Values)), Steps: o.steps}})
}

// connect finds what passes between the pieces.
func (s *splitting) connect() {
	n := len(s.Values)
	maker, last := slices.Repeat([]int{-1}, n), slices.Repeat([]int{-1}, n) // pieces
	each := func(piece *Piece, f func(*Step)) {
		if piece.Move != nil {
			f(piece.Move)
			return
		}
		for i := range piece.Part.Steps {
			f(&piece.Part.Steps[i])
		}
	}
	for i := range s.done {
		each(&s.done[i], func(x *Step) {
			for _, r := range x.In {
				if r.Value >= 0 {
					last[r.Value] = i
				}
			}
			x.Outs(func(r *Ref) { maker[r.Value] = i })
		})
	}
	kept := make([]bool, n)
	for _, r := range s.Results {
		if r.Value >= 0 {
			kept[r.Value] = true
		}
	}
	for i := range s.done {
		q := s.done[i].Part
		each(&s.done[i], func(x *Step) {
			if q == nil {
				return
			}
			for _, r := range x.In {
				if v := r.Value; v >= 0 && maker[v] != i {
					q.Values[v] = s.Values[v]
					if maker[v] >= 0 {
						q.Values[v].Kind = Arg
					}
				}
			}
			x.Outs(func(r *Ref) {
				v := r.Value
				q.Values[v] = s.Values[v]
				if kept[v] || last[v] > i {
					q.Results = append(q.Results, *r)
				}
			})
		})
	}
	for v := range s.Values {
		if m := maker[v]; m >= 0 && !kept[v] && (s.done[m].Move != nil || last[v] > m) {
			to := &s.done[max(last[v], m)]
			to.Ends = append(to.Ends, v)
		}
	}
}
