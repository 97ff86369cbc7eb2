package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/nccl"
)

// ready is a message's memory on a card, as it was when Send or Recv was called: what the
// program queues afterwards does not delay the message.
type ready struct {
	on     card
	loan   lend.Loan
	out    *locus.Tensor // of Recv
	own    bool          // out was made for the message
	fence  backend.Event // passed when x is computed, or out's memory is not used any more
	behind bool          // the card had collectives under way, which wait for other ranks
}

// prepare gets a message ready that may go by NCCL. It is called where the program calls.
func (c *cards) prepare(j *job) {
	d := c.cardOf(j.x)
	if d == nil || !c.lib.Pairs() || j.x.Bytes() <= eager {
		return
	}
	j.failed = guard.Call(func() (err error) {
		r := &ready{on: d}
		if j.kind == send {
			s := locus.NewScope()
			defer s.Close() // a copy's memory stays until the loan ends
			r.loan = lend.Memory(j.name, s.Use(j.x).Contiguous())
		} else {
			if r.out = j.into; r.out == nil {
				r.out, r.own = lend.Make(j.name, j.x.Device(), false, j.x.DType(), j.x.Shape()).(*locus.Tensor), true
			}
			r.loan = lend.Memory(j.name, r.out)
		}
		j.ready = r
		r.fence, err = d.Fence(r.loan.Block)
		r.behind = trafficOf(d).behind() // not before: another goroutine may begin a collective meanwhile
		return cardError(j.name, err)
	})
}

// unready lets go of what a message does not use.
func (j *job) unready() {
	r := j.ready
	if r == nil {
		return
	}
	j.ready = nil
	r.loan.Release()
	if r.own {
		r.out.Free()
	}
}

// free waits until the message's memory is ready; only for a while if that may depend on
// other ranks, which may wait for this message.
func (r *ready) free(ctx context.Context, briefly bool) (bool, error) {
	if r.fence.Done() {
		return true, nil
	}
	done := make(chan struct{})
	go func() {
		r.fence.Wait()
		close(done)
	}()
	var enough <-chan time.Time
	if briefly {
		enough = time.After(patience)
	}
	select {
	case <-done:
		return true, nil
	case <-enough:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// message does a Send or Recv in a group that has NCCL.
func (e *remote) message(ctx context.Context, j *job) (*locus.Tensor, error) {
	if j.failed != nil {
		return nil, j.failed
	}
	p := e.cards.pair(j.root, j.kind == send)
	ok, err := p.agree(ctx, j)
	if err != nil {
		return nil, err
	}
	if !ok {
		j.unready()
		return e.stage(ctx, j)
	}
	return p.pass(ctx, j)
}

// pass queues a message that both sides have agreed on. It is done for the host when it is
// queued, since what uses its memory afterwards is queued behind it; but a program's memory is
// used in other ways, so that a Send of one is done when the card has read x.
func (p *pair) pass(ctx context.Context, j *job) (*locus.Tensor, error) {
	started := time.Now()
	r, t, c := j.ready, trafficOf(p.on), p.c
	j.ready = nil
	k := &nccl.Call{N: j.x.Len(), DType: j.x.DType()}
	if j.kind == send {
		k.In = address(r.loan)
	} else {
		k.Out = address(r.loan)
	}
	queue := func(stream uintptr) error {
		switch {
		case p.comm.Ended():
			return errEnded
		case j.kind == send:
			return p.comm.Send(k, stream)
		}
		return p.comm.Recv(k, stream)
	}
	done := make(chan struct{})
	c.fly(1)
	err := r.on.OnLane(p.lane, r.loan.Block, queue, func() {
		r.loan.Release()
		t.messageDone()
		c.fly(-1)
		close(done)
	})
	if err != nil {
		return nil, cardError(j.name, err)
	}
	j.by, j.watched = ", by NCCL", true
	over := make(chan struct{})
	see := func() {
		defer close(over)
		p.watch(j, done)
		if lend.Profiling() {
			j.note(started)
		}
	}
	select {
	case <-done:
		see()
	default:
		go see()
	}
	if j.kind == send && j.program {
		select {
		case <-over:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := c.member.Fault(); err != nil { // what is aborted ends as well
		if r.own {
			r.out.Free()
		}
		return nil, err
	}
	return r.out, nil
}

// watch looks after a message on the card until it is done. One that waits for a rank that
// does not come ends with the time-out, as on the host.
func (p *pair) watch(j *job, done <-chan struct{}) {
	late := time.NewTimer(p.c.timeout)
	defer late.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-done:
			return
		case <-late.C:
			p.c.member.LateWith(p.peer, lateText(j, p.c.timeout))
		case <-look.C:
			if p.c.member.Fault() != nil {
				<-done // it was aborted
				return
			}
			if err := p.comm.Err(); err != nil {
				p.c.member.Fail(err.Error())
			}
		}
	}
}

func lateText(j *job, after time.Duration) string {
	return fmt.Sprintf("%s of %s has not ended within %v", j.name, j.text, after)
}

// fly counts messages on their way.
func (c *cards) fly(n int) {
	c.pairs.Lock()
	defer c.pairs.Unlock()
	c.pairs.flying += n
}

// cardError is an error of a device's as a *locus.Error; one of NCCL's stays as it is.
func cardError(name string, err error) error {
	var async *backend.AsyncError
	if errors.As(err, &async) || errors.Is(err, locus.ErrDeviceLost) {
		return lend.Error(name, err)
	}
	return err
}
