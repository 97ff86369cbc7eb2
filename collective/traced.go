package collective

import (
	"context"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/trace"
)

// A collective in a function that is compiled is a step of the program: each run starts it
// at its place, goes on, and waits where the result is first used. The program's memory is
// the collective's. Contexts end with the call that was traced, so runs have none; the
// group's time-out holds.

// step is a collective of a program. Equal ones do the same.
type step struct {
	g     *Group
	name  string
	kind  kind
	op    Op
	root  int
	n     int
	parts bool
	text  string
}

var _ program.Work = step{}

// Name returns the method of Group.
func (s step) Name() string { return s.name }

// String describes the collective as messages do.
func (s step) String() string { return s.text }

// record makes a job, which was checked, a step of the function that is traced.
func (g *Group) record(in *trace.Trace, j *job) *Pending {
	g.mu.Lock()
	err := g.over()
	g.mu.Unlock()
	if err != nil {
		return failed(j.name, err)
	}
	s := step{g, j.name, j.kind, j.op, j.root, j.n, j.parts, j.text}
	reads := gives(j, g.rank) // else it need not be computed
	shape, gets := gets(j, g.rank)
	d := j.x.DType()
	if !gets { // something to wait for
		d, shape = locus.Uint8, []int{1}
	}
	p := newPending()
	made := lend.Begin(j.name, s, j.x, reads, d, shape)
	close(p.done)
	p.in, p.wait = in, func() {
		t := lend.Await(j.name, s, j.x, reads, made).(*locus.Tensor)
		if gets {
			p.result = t
		}
	}
	in.Ends = append(in.Ends, func() {
		if p.wait != nil { // nothing has waited: the operand's memory must stay until then
			p.wait()
		}
	})
	return p
}

// Start starts the collective in a run of a program.
func (s step) Start(on backend.Device, in, out *backend.View) program.Flight {
	j := &job{ctx: context.Background(), name: s.name, kind: s.kind, op: s.op, root: s.root, n: s.n, parts: s.parts, text: s.text, program: true}
	to := lend.View(on, out).(*locus.Tensor)
	if j.x = to; in != nil {
		j.x = lend.View(on, in).(*locus.Tensor)
	}
	var own *locus.Tensor
	if _, local := s.g.eng.(*localEngine); local && in != nil && !j.x.Device().IsGPU() {
		// A GPU of another rank reads main memory when its queue comes to it. It holds the
		// tensor until then, but the program writes over its own memory before.
		own = j.x.Copy()
		j.x = own
	}
	j.rows = j.borders(s.g.size)
	if _, ok := gets(j, s.g.rank); ok {
		j.into = to
	}
	p := s.g.enqueue(j)
	if q, ok := s.g.eng.(*remote); ok && q.queues(j) {
		<-p.done // it is on its way when the card's queue has it: behind what the program has queued so far
	}
	return &stepFlight{p, s, j.x.Device(), own}
}

// stepFlight is a collective of a run.
type stepFlight struct {
	p   *Pending
	s   step
	on  locus.Device
	own *locus.Tensor // a copy of the operand; nil where the program's memory is read
}

// land waits for the collective to end.
func (f *stepFlight) land() {
	<-f.p.done
	if f.own != nil {
		f.own.Free()
	}
}

// Wait waits for the result.
func (f *stepFlight) Wait() error {
	started := time.Now()
	f.land()
	if lend.Profiling() {
		lend.Span(f.on, "wait", f.s.name+": "+f.s.text, 0, started)
	}
	return f.p.err
}

// Drop ends the group, since this rank does not go on, and waits for the collective to end.
func (f *stepFlight) Drop(why error) {
	f.s.g.Abort(why)
	f.land()
}
