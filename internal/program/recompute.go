package program

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/units"
)

// Recomputed says what Recompute has done.
type Recomputed struct {
	Values int // that are computed again
	Bytes  int // of them, which are not kept meanwhile
	Moved  int // bytes that doing so reads and writes
	Before int // the most that is in use at once, by the lives of values
	After  int
}

func (r *Recomputed) String() string {
	return fmt.Sprintf("recomputation: %d values of %s are computed again instead of being kept, which moves %s; at most %s are in use at once, without it %s",
		r.Values, units.Bytes(r.Bytes), units.Bytes(r.Moved), units.Bytes(r.After), units.Bytes(r.Before))
}

// Recompute returns a program that computes the same, to the bit, in less memory: values
// that are cheap to compute, and wait for long to be used once more, as the backward part
// of a training step does, are computed again before that use. Where most memory is in
// use, the value is chosen first that frees the most bytes for the bytes that computing
// it moves; this is repeated until the most cannot be lowered. New values stand behind
// the old ones, which keep their numbers; p is not changed. Where nothing is gained, p is
// returned.
//
// Cheap are elementwise steps, copies, casts and normalizations, of operands that are
// still there, or that are cheap themselves.
func (p *Program) Recompute() (*Program, *Recomputed) {
	r := &recomputer{p: &Program{Values: slices.Clone(p.Values), Steps: slices.Clone(p.Steps), Results: p.Results}, kept: make([]bool, len(p.Values))}
	for _, o := range p.Results {
		if o.Value >= 0 {
			r.kept[o.Value] = true
		}
	}
	r.look()
	now := Recomputed{Before: r.peak, After: r.peak}
	best, done := p, now
	for range 4 * len(p.Steps) {
		c := r.choose()
		if c == nil {
			break
		}
		r.apply(c)
		r.look()
		now.Values++
		now.Bytes += r.p.Values[c.value].Bytes
		now.Moved += c.moved
		if now.After = r.peak; now.After < done.After {
			best, done = &Program{Values: slices.Clone(r.p.Values), Steps: slices.Clone(r.p.Steps), Results: r.p.Results}, now
		}
	}
	if best == p {
		return p, nil
	}
	return best, &done
}

// recomputer is the state of Recompute.
type recomputer struct {
	p      *Program
	kept   []bool // by value: it is a result
	makers []int
	users  [][]int // by value: steps that read it, ascending
	last   []int   // by value: the last step that needs it
	peak   int     // bytes
	at     int     // the step with the peak
}

// look finds lives, and where most memory is in use.
func (r *recomputer) look() {
	p, n := r.p, len(r.p.Values)
	for len(r.kept) < n {
		r.kept = append(r.kept, false)
	}
	r.makers, r.last, r.users = p.makers(), p.lastUses(), make([][]int, n)
	for i := range p.Steps {
		for _, in := range p.Steps[i].In {
			if v := in.Value; v >= 0 && (len(r.users[v]) == 0 || r.users[v][len(r.users[v])-1] != i) {
				r.users[v] = append(r.users[v], i)
			}
		}
	}
	change := make([]int, len(p.Steps)+1)
	for v := range p.Values {
		if p.Values[v].Kind != Temp || r.makers[v] < 0 {
			continue
		}
		if r.kept[v] {
			r.last[v] = len(p.Steps) - 1
		}
		change[r.makers[v]] += p.Values[v].Bytes
		change[r.last[v]+1] -= p.Values[v].Bytes
	}
	r.peak = 0
	now := 0
	for i := range p.Steps {
		if now += change[i]; now > r.peak {
			r.peak, r.at = now, i
		}
	}
}

// again is a value that may be computed again.
type again struct {
	value int
	use   int   // the step before which it is
	steps []int // that compute it, in their order
	moved int   // bytes
}

// worth is how many bytes must be freed for each that is moved.
const worth = 0.15

// choose returns the best value to compute again, nil if there is none that lowers the
// peak.
func (r *recomputer) choose() (best *again) {
	most := worth
	for v := range r.p.Values {
		val := &r.p.Values[v]
		if val.Kind != Temp || r.kept[v] || r.makers[v] < 0 || r.makers[v] >= r.at || r.last[v] <= r.at || val.Bytes == 0 {
			continue
		}
		use := -1 // the first behind the peak; there must be none at it
		for _, u := range r.users[v] {
			if u >= r.at {
				use = u
				break
			}
		}
		if use <= r.at {
			continue
		}
		c := &again{value: v, use: use}
		if !r.plan(c, v, 3) {
			continue
		}
		if ratio := float64(val.Bytes) / float64(c.moved); ratio >= most && (best == nil || ratio > most) {
			best, most = c, ratio
		}
	}
	return best
}

// plan lists the steps that compute v again. It reports false where that cannot be done
// cheaply.
func (r *recomputer) plan(c *again, v, depth int) bool {
	i := r.makers[v]
	if i < 0 || depth == 0 {
		return false
	}
	s := &r.p.Steps[i]
	if slices.Contains(c.steps, i) {
		return true
	}
	if !cheap(s) || s.Out.Value != v {
		return false
	}
	moved := r.p.Values[v].Bytes
	for k := range s.In {
		o := s.In[k].Value
		if o < 0 || running(s, k) {
			continue
		}
		moved += size(&s.In[k].View)
		if r.p.Values[o].Kind != Temp || r.makers[o] < 0 || r.kept[o] || r.last[o] >= c.use {
			continue
		}
		if !r.plan(c, o, depth-1) {
			return false
		}
	}
	if s.Op == op.Normalized || s.Op == op.BatchNorm {
		moved += size(&s.In[0].View) // they read it twice
	}
	c.steps = append(c.steps, i)
	c.moved += moved
	return true
}

// cheap reports whether a step may be computed again: it makes the same of the same
// operands whenever it is run, and quickly.
func cheap(s *Step) bool {
	if _, plain := s.Attrs.(op.Normalize); plain {
		return s.Late == nil && (s.Op == op.Normalized || s.Op == op.BatchNorm)
	}
	return s.Late == nil && op.Get(s.Op).Elementwise()
}

// running reports whether operand k of the step is one of a batch's running statistics,
// which its result does not depend on.
func running(s *Step, k int) bool {
	if s.Op != op.BatchNorm {
		return false
	}
	return s.Attrs.(op.Normalize).Running && k >= len(s.In)-2
}

// apply computes a value again.
func (r *recomputer) apply(c *again) {
	p := r.p
	renamed := map[int]int{}
	fresh := func(o Ref) Ref {
		v := p.Values[o.Value]
		p.Values = append(p.Values, Value{Kind: Temp, Spec: v.Spec, Bytes: v.Bytes})
		renamed[o.Value] = len(p.Values) - 1
		o.Value = renamed[o.Value]
		return o
	}
	var steps []Step
	for _, i := range c.steps {
		s := p.Steps[i]
		in := make([]Ref, 0, len(s.In))
		for k := range s.In {
			if running(&s, k) {
				continue
			}
			o := s.In[k]
			if to, ok := renamed[o.Value]; ok && o.Value >= 0 {
				o.Value = to
			}
			in = append(in, o)
		}
		if a, ok := s.Attrs.(op.Normalize); ok && a.Running {
			a.Running, a.Momentum = false, 0
			s.Attrs = a
		}
		s.In, s.Out = in, fresh(s.Out)
		more := make([]Ref, len(s.More))
		for k := range s.More {
			more[k] = fresh(s.More[k])
		}
		s.More, s.Again = more, true
		steps = append(steps, s)
	}
	for i := c.use; i < len(p.Steps); i++ { // what comes later reads the new one
		s := &p.Steps[i]
		for k := range s.In {
			if s.In[k].Value == c.value {
				s.In = slices.Clone(s.In)
				s.In[k].Value = renamed[c.value]
			}
		}
	}
	p.Steps = slices.Insert(p.Steps, c.use, steps...)
}
