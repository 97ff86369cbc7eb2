package collective

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// watcher ends the job that a queue is at when the group is over. One goroutine does so for
// all jobs of a queue: to start one for each takes longer than to queue a sum on a card.
type watcher struct {
	stop chan struct{}

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the job at hand; nil between jobs
}

func (g *Group) watch() *watcher {
	w := &watcher{stop: make(chan struct{})}
	go func() {
		select {
		case <-w.stop:
		case <-g.eng.over():
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.cancel != nil {
				w.cancel(g.eng.fault())
			}
		}
	}()
	return w
}

// during makes cancel end job j when the group is over or j takes too long, until the function
// that it returns is called.
func (w *watcher) during(g *Group, j *job, cancel context.CancelCauseFunc) (done func()) {
	w.mu.Lock()
	w.cancel = cancel
	w.mu.Unlock()
	select {
	case <-g.eng.over(): // the goroutine may have seen it before
		cancel(g.eng.fault())
	default:
	}
	limit := time.AfterFunc(g.timeout, func() {
		g.eng.late(j, g.timeout) // which ends the group, and names the rank that is missing
		time.AfterFunc(3*time.Second, func() {
			cancel(fmt.Errorf("%s has not ended within %v: %w", j.text, g.timeout, context.DeadlineExceeded))
		})
	})
	return func() {
		limit.Stop()
		w.mu.Lock()
		w.cancel = nil
		w.mu.Unlock()
	}
}
