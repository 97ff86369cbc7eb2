package program

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Work is something that a program does besides running ops on its device: a collective.
// It goes on beside the steps that follow. Works are compared with ==: equal ones do the
// same.
type Work interface {
	Name() string   // "AllReduce"
	String() string // the same with what it works on
	// Start begins. It reads in, which is nil if there is no operand, and writes out; both
	// are contiguous, on device d, and stay until Wait or Drop of the flight has returned.
	Start(d backend.Device, in, out *backend.View) Flight
}

// Flight is work that was started. One of its methods is called, once.
type Flight interface {
	// Wait returns when the result is there, as far as what is queued afterwards can tell.
	Wait() error
	// Drop ends the work because the run has failed, and returns when it no longer uses its
	// memory, as far as what is queued afterwards can tell.
	Drop(why error)
}

// Outside is the attribute of op.Begin and op.Await. The operands of op.Begin are what the
// work reads, if Reads, and the token of the op.Begin before, a tensor of one byte that
// keeps them in order whatever passes do: other ranks do the same in the same order. Its
// results are the work's result and its own token. The operands of op.Await are the work's
// result and what it reads, which therefore keep their memory until then; its result is the
// work's result, ready for use.
type Outside struct {
	Work  Work
	Reads bool
}

func (o Outside) String() string { return o.Work.String() }

// outside reports whether the step is not run by the device.
func (s *Step) outside() bool { return s.Op == op.Begin || s.Op == op.Await }

// Waits reports whether a run waits for something outside its device: for other ranks, which
// may be other goroutines of this program. Meanwhile it must not hold what they need.
func (p *Program) Waits() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.outside() })
}

// Sink moves every op.Await down to the first step that needs its result, so that the
// steps between run meanwhile. One whose result is only returned stays.
func (p *Program) Sink() {
	for i := len(p.Steps) - 1; i >= 0; i-- {
		if p.Steps[i].Op != op.Await {
			continue
		}
		v := p.Steps[i].Out.Value
		to := i
		for k := i + 1; k < len(p.Steps); k++ {
			if slices.ContainsFunc(p.Steps[k].In, func(r Ref) bool { return r.Value == v }) {
				to = k - 1
				break
			}
		}
		s := p.Steps[i]
		copy(p.Steps[i:to], p.Steps[i+1:to+1])
		p.Steps[to] = s
	}
}

// flights is the work of a run that was started and not waited for.
type flights struct {
	list []flight
	copy backend.Call
}

type flight struct {
	value int // that it makes
	Flight
	memory [2]*memory.Block // that it uses: nil, or what it reads, and its result's
}

// join makes what is queued afterwards wait for the work that the device does there: whoever
// uses the memory next has other handles of it.
func (x *flight) join() {
	for _, b := range x.memory {
		if b == nil {
			continue
		}
		if a := b.Arrival(); a != nil {
			a.Join()
		}
	}
}

// queue runs a step: on the device, unless it is outside.
func (f *flights) queue(d backend.Device, s *Step, c *backend.Call) error {
	switch s.Op {
	case op.Begin:
		o := s.Attrs.(Outside)
		var in *backend.View
		if o.Reads {
			v := c.In[0]
			in = &v
		}
		out := c.Out
		x := flight{value: s.Out.Value, memory: [2]*memory.Block{nil, out.Block}}
		if in != nil {
			x.memory[0] = in.Block
		}
		x.Flight = o.Work.Start(d, in, &out)
		f.list = append(f.list, x)
		return nil
	case op.Await:
		return f.await(d, s, c)
	}
	return backend.Queue(d, c)
}

func (f *flights) await(d backend.Device, s *Step, c *backend.Call) error {
	i := slices.IndexFunc(f.list, func(x flight) bool { return x.value == s.In[0].Value })
	x := f.list[i]
	f.list = slices.Delete(f.list, i, i+1)
	err := x.Wait()
	x.join() // also where it has failed: it may be under way
	if err != nil {
		return err
	}
	from, to := c.In[0].Block, c.Out.Block
	if from.Addr == to.Addr && from.Ptr == to.Ptr || c.Out.Elements() == 0 {
		return nil
	}
	f.copy = backend.Call{Op: op.Copy, In: append(f.copy.In[:0], c.In[0]), Out: c.Out, Step: s}
	err = backend.Queue(d, &f.copy)
	f.copy.In[0].Block, f.copy.Out.Block = nil, nil
	return err
}

// end drops what a run that failed has left.
func (f *flights) end(why error) {
	for _, x := range f.list {
		x.Drop(why)
		x.join()
	}
	clear(f.list)
	f.list = f.list[:0]
}
