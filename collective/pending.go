package collective

import (
	"context"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// Pending is a collective that was started. Several may be under way; those of one group run
// one after the other, in the order of the calls.
type Pending struct {
	done   chan struct{}
	result *locus.Tensor
	err    error
}

// Wait returns the result when it is there. On a GPU it may still be computed: what uses it
// is queued behind, as with any op. Ranks that get nothing (all but the root of a
// [Group.Reduce], the sender of a [Group.Send], all in a [Group.Barrier]) get nil.
func (p *Pending) Wait() (*locus.Tensor, error) {
	if p == nil || p.done == nil {
		return nil, newError("Wait", gate.Made(false, "get one from a method of a Group"))
	}
	<-p.done
	return p.result, p.err
}

// Done reports whether Wait would return at once.
func (p *Pending) Done() bool {
	gate.Receiver("Pending.Done", p != nil && p.done != nil, "get one from a method of a Group")
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
	ctx  context.Context
	name string // "AllReduce"
	kind kind
	op   Op
	root int // of Broadcast and Reduce; the other rank of Send and Recv
	x    *locus.Tensor
	rows []int // the borders of the ranks' parts along the first axis, of AllGather and ReduceScatter
	text string
	seq  uint64
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
