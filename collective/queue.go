package collective

import (
	"context"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/lend"
)

// How a group's collectives and messages wait for their turn, and run.

// enqueue starts a job that was checked.
func (g *Group) enqueue(j *job) *Pending {
	j.Pending = newPending()
	if e, ok := g.eng.(*remote); ok && e.cards != nil && (j.kind == send || j.kind == recv) {
		e.cards.prepare(j)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.over(); err != nil {
		j.unready()
		return failed(j.name, err)
	}
	at := 0
	switch j.kind {
	case send:
		at = 1 + j.root
	case recv:
		at = -1 - j.root
	default:
		j.seq = g.seq
		g.seq++
	}
	q := g.queues[at]
	if q == nil {
		q = &queue{wake: make(chan struct{}, 1)}
		g.queues[at] = q
	}
	q.jobs = append(q.jobs, j)
	switch {
	case q.idle:
		q.idle = false
		q.wake <- struct{}{}
	case !q.busy:
		q.busy = true
		go g.work(q)
	}
	return j.Pending
}

// queue is what waits for its turn. A goroutine works on it while there is something, and a
// moment longer: the stack of a new one has to grow each time, which takes longer than a small
// collective.
type queue struct {
	jobs []*job
	busy bool          // there is a goroutine
	idle bool          // it waits for wake
	wake chan struct{} // has room for one
}

// lingers is what Group.lingers is but in tests.
const lingers = 100 * time.Millisecond

// more reports whether something has come into a queue that was empty. The group is locked,
// and is so when it returns.
func (g *Group) more(q *queue) bool {
	q.idle = true
	g.mu.Unlock()
	end := time.NewTimer(g.lingers)
	defer end.Stop()
	select {
	case <-q.wake:
	case <-end.C:
	case <-g.left: // the goroutine would keep the group, and what that holds, from being freed
	}
	g.mu.Lock()
	if q.idle {
		q.idle = false
		return false
	}
	select {
	case <-q.wake: // it came together with the end
	default:
	}
	return true
}

func (g *Group) work(q *queue) {
	w := g.watch()
	defer close(w.stop)
	for {
		g.mu.Lock()
		if len(q.jobs) == 0 && !g.more(q) {
			q.jobs, q.busy = nil, false
			g.mu.Unlock()
			return
		}
		j := q.jobs[0]
		q.jobs[0] = nil
		q.jobs = q.jobs[1:]
		broken := g.broken
		g.mu.Unlock()
		if broken != nil {
			j.unready()
			j.end(nil, broken)
			continue
		}
		guard.Go(func() error {
			started := time.Now()
			t, err := g.do(w, j)
			if lend.Profiling() && !j.watched {
				j.note(started)
			}
			if err != nil {
				err = g.breakOff(j, err)
			}
			j.result = t
			return err
		}, func(err error) {
			j.unready()
			j.end(j.result, err)
		})
	}
}

// do runs a job until it is done, its context ends, the group is over, or it has taken too
// long.
func (g *Group) do(w *watcher, j *job) (*locus.Tensor, error) {
	ctx, cancel := context.WithCancelCause(j.ctx)
	defer cancel(nil)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer w.during(g, j, cancel)()
	var t *locus.Tensor
	err := guard.Call(func() error {
		if j.kind != send && j.kind != recv {
			if err := g.eng.enter(ctx, j); err != nil {
				return err
			}
		}
		if j.kind == barrier {
			return nil
		}
		var err error
		if t, err = g.eng.run(ctx, j); err != nil || j.into == nil || t == nil || t == j.into {
			return err
		}
		lend.CopyInto(j.name, j.into, t)
		t.Free()
		t = j.into
		return nil
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t, err
}
