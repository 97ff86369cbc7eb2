package collective

import (
	"context"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/trace"
)

// Pending is a collective that was started. Several may be under way; those of one group run
// one after the other, in the order of the calls.
type Pending struct {
	done   chan struct{}
	result *locus.Tensor
	err    error

	in   *trace.Trace // the compiled function that it is part of, while that is traced
	wait func()       // records that the function waits for the result
}

// Wait returns the result when it is there. On a GPU it may still be computed: ops that use
// it are queued behind it, as with any op. Ranks that get nothing (all but the root of a
// [Group.Reduce], the sender of a [Group.Send], all in a [Group.Barrier]) get nil.
//
// In a function that locus.Compile traces there is no error: what goes wrong later is an
// error of the call that runs the program.
func (p *Pending) Wait() (*locus.Tensor, error) {
	if p == nil || p.done == nil {
		return nil, newError("Wait", gate.Made(false, "get one from a method of a Group"))
	}
	if in := trace.Current(); in != p.in {
		if in != nil {
			lend.Readable("Wait") // it was started outside: there is nothing to wait for yet
		}
		return nil, newError("Wait", problem(locus.ErrArgument, "wait inside, and let the function return the result", "the collective is part of a compiled function, which has ended"))
	}
	if p.wait != nil {
		p.wait()
		p.wait = nil
	}
	<-p.done
	return p.result, p.err
}

// Done reports whether Wait would return at once.
func (p *Pending) Done() bool {
	gate.Receiver("Pending.Done", p != nil && p.done != nil, "get one from a method of a Group")
	lend.Readable("Pending.Done")
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func newPending() *Pending { return &Pending{done: make(chan struct{})} }

func (p *Pending) end(t *locus.Tensor, err error) {
	p.result, p.err = t, err
	close(p.done)
}

func failed(name string, err error) *Pending {
	p := newPending()
	p.end(nil, newError(name, err))
	return p
}

// job is a collective on its way through a group.
type job struct {
	*Pending
	ctx   context.Context
	name  string // "AllReduce"
	kind  kind
	op    Op
	root  int // of Broadcast and Reduce; the other rank of Send and Recv
	x     *locus.Tensor
	into  *locus.Tensor // where the result goes; nil: to a new tensor
	n     int           // rows of AllGatherParts
	parts bool          // it is that
	rows  []int         // the borders of the ranks' parts along the first axis, of AllGather and ReduceScatter
	text  string
	seq   uint64

	program bool   // it is a step of one, whose memory it uses
	ready   *ready // of a message that may go by NCCL
	failed  error  // why that cannot be got ready
	by      string // ", by NCCL", of a message that went so

	watched bool // it goes on on a card, whose engine notes its time
	seen    bool // the timeline has it by the card's own clock
}

// note puts the job's time on the timeline that is being taken.
func (j *job) note(started time.Time) {
	var d locus.Device
	bytes := 0
	if j.x != nil {
		d, bytes = j.x.Device(), j.x.Bytes()
	}
	lend.Span(d, j.name, j.text+j.by, bytes, started)
}

// borders returns where the ranks' parts along the first axis begin and end, of AllGather
// and ReduceScatter.
func (j *job) borders(size int) []int {
	switch {
	case j.parts:
		return engine.Even(j.n, size)
	case j.kind == reduceScatter:
		return engine.Even(rows(j.x), size)
	case j.kind == allGather:
		l := make([]int, size+1)
		for i := range size {
			l[i+1] = (i + 1) * rows(j.x)
		}
		return l
	}
	return nil
}

type kind uint8

const (
	allReduce kind = iota
	reduce
	broadcast
	allGather
	reduceScatter
	barrier
	send
	recv
)
