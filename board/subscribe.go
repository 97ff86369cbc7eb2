package board

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/locusml/locus/internal/gate"
)

// maxBehind bounds what waits for a subscriber that does not keep up (about 60 MB).
const maxBehind = 1 << 20

// subscriber carries points from Draw to a function that may be slow.
type subscriber struct {
	queue   []Point       // guarded by Board.mu
	limit   int           // of the queue
	lost    atomic.Int64  // points dropped because the queue was full
	wake    chan struct{} // holds a token when the queue has points or the subscription ends
	ended   chan struct{} // closed to end it
	drained chan struct{} // closed when the last points are delivered
}

// push queues a point. The caller holds Board.mu.
func (s *subscriber) push(p Point) {
	if len(s.queue) >= s.limit {
		s.lost.Add(1)
		return
	}
	s.queue = append(s.queue, p)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Subscribe calls f with all points that appear from now on, in order and in batches, from one goroutine. Draw never
// waits for f; if f falls a million points behind, the newest are dropped. f must not keep the slice.
//
// The returned function ends the subscription: it returns when f has seen all points, and must not be called by f.
func (b *Board) Subscribe(f func([]Point)) (cancel func()) {
	gate.Receiver("board.Board.Subscribe", b != nil, "use new(board.Board)")
	gate.Check("board.Board.Subscribe", gate.Given("the function", f))
	_, cancel = b.subscribe(0, f)
	return cancel
}

// subscribe is Subscribe with a pause between calls of f, so that a batch is worth a write to disk.
func (b *Board) subscribe(pause time.Duration, f func([]Point)) (*subscriber, func()) {
	s := &subscriber{limit: maxBehind, wake: make(chan struct{}, 1), ended: make(chan struct{}), drained: make(chan struct{})}
	b.mu.Lock()
	b.subs = append(b.subs, s)
	b.mu.Unlock()

	go func() {
		defer close(s.drained)
		var batch []Point
		for ended := false; !ended; {
			select {
			case <-s.wake:
			case <-s.ended:
				ended = true // one more round for what is left
			}
			b.mu.Lock()
			batch, s.queue = s.queue, batch[:0]
			b.mu.Unlock()
			if len(batch) > 0 {
				f(batch)
			}
			clear(batch) // let go of names
			if pause > 0 && !ended {
				select {
				case <-time.After(pause):
				case <-s.ended:
				}
			}
		}
	}()
	return s, func() {
		b.mu.Lock()
		i := slices.Index(b.subs, s)
		if i >= 0 {
			b.subs = slices.Delete(slices.Clone(b.subs), i, i+1)
			close(s.ended)
		}
		b.mu.Unlock()
		<-s.drained
	}
}
