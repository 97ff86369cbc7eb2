package collective

import (
	"context"
	"sync"
	"time"
)

// traffic is what NCCL does on a card, in all groups of the process. A message has the card
// for itself, from before it is queued until it is done, its communicator's making included:
// kernels of NCCL's wait on the card for other ranks, and CUDA does not promise that streams
// make progress independently of each other, so that two ranks with the same two pieces of
// work under way in different order could wait for ever.
type traffic struct {
	mu          sync.Mutex
	collectives int           // under way, or about to be queued
	message     bool          // one is under way
	groups      int           // communicators of groups that are being made
	wanted      int           // and those that wait for a message to end
	changed     chan struct{} // closed when something has ended
}

var traffics sync.Map // of *traffic, by card

func trafficOf(d card) *traffic {
	t, _ := traffics.LoadOrStore(d, &traffic{changed: make(chan struct{})})
	return t.(*traffic)
}

// until waits until ready, which then may change t.
func (t *traffic) until(ctx context.Context, ready func() bool) error {
	for {
		t.mu.Lock()
		ok, changed := ready(), t.changed
		t.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ended changes t and wakes whoever waits.
func (t *traffic) ended(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// collective begins a collective, when no message is under way.
func (t *traffic) collective(ctx context.Context) error {
	return t.until(ctx, func() bool {
		if t.message {
			return false
		}
		t.collectives++
		return true
	})
}

func (t *traffic) collectiveDone() { t.ended(func() { t.collectives-- }) }

// behind reports whether what is queued on the card may wait for other ranks.
func (t *traffic) behind() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.collectives > 0
}

// start begins to make the communicator of a group, when no message is under way.
func (t *traffic) start(ctx context.Context) error {
	t.mu.Lock()
	t.wanted++ // no message begins any more
	t.mu.Unlock()
	defer t.ended(func() { t.wanted-- })
	return t.until(ctx, func() bool {
		if t.message {
			return false
		}
		t.groups++
		return true
	})
}

func (t *traffic) startDone() { t.ended(func() { t.groups-- }) }

// moment is how long a message waits for collectives: they may be short, or wait for a rank
// that waits for the message.
const moment = 10 * time.Millisecond

// lull waits for a moment without collectives, but not for long.
func (t *traffic) lull(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	_ = t.until(ctx, func() bool { return t.collectives == 0 }) // take looks again
}

// take reserves the card for a message, when the one before it has ended. It reports false if the
// card has other work of NCCL's, which may wait for other ranks.
func (t *traffic) take(ctx context.Context) (ok bool, err error) {
	err = t.until(ctx, func() bool {
		switch {
		case t.collectives+t.groups+t.wanted > 0:
			ok = false
		case t.message:
			return false
		default:
			t.message, ok = true, true
		}
		return true
	})
	return ok, err
}

// messageDone ends what take began.
func (t *traffic) messageDone() { t.ended(func() { t.message = false }) }
