package collective

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// traffic is what NCCL does on a card, in all groups of the process. While a pair makes its
// communicator and sends the first message, which connects it, nothing else of NCCL's is on
// either card: the driver may wait for the card meanwhile, on which a kernel may wait for a
// rank that waits for this pair. What both sides of a pair have agreed on so waits for
// nothing else, and always ends.
type traffic struct {
	mu          sync.Mutex
	collectives int           // under way, or about to be queued
	messages    int           // the same
	pairs       int           // pairs that begin: one at most
	groups      int           // communicators of groups that are being made
	wanted      int           // and those that wait for messages to end
	offers      int           // by which this rank wants to begin a pair, without an answer yet
	changed     chan struct{} // closed when one of these becomes less
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

// less says that one of the numbers has become less.
func (t *traffic) less(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n--
	close(t.changed)
	t.changed = make(chan struct{})
}

// collective begins a collective, when no pair begins.
func (t *traffic) collective(ctx context.Context) error {
	return t.until(ctx, func() bool {
		if t.pairs > 0 {
			return false
		}
		t.collectives++
		return true
	})
}

func (t *traffic) collectiveDone() { t.less(&t.collectives) }

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
	defer t.less(&t.wanted)
	return t.until(ctx, func() bool {
		if t.messages+t.pairs > 0 {
			return false
		}
		t.groups++
		return true
	})
}

func (t *traffic) startDone() { t.less(&t.groups) }

// offer says that this rank offers to begin a pair, until the function that it returns is
// called.
func (t *traffic) offer() (settled func()) {
	t.mu.Lock()
	t.offers++
	t.mu.Unlock()
	return sync.OnceFunc(func() { t.less(&t.offers) })
}

// lull waits a while for a moment in which a pair can begin. Ranks that all offer and receive
// would refuse each other every time, so each leaves the others a different time to go first.
func (t *traffic) lull(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	alone := false
	_ = t.until(ctx, func() bool { // message looks again
		alone = t.offers == 0
		return t.messages+t.pairs == 0 || t.collectives > 0
	})
	if alone {
		return
	}
	select {
	case <-time.After(rand.N(patience / 10)):
	case <-ctx.Done():
	}
}

// message begins a message, of a pair that is connected or else begins with it. It reports
// false if this is not the moment.
func (t *traffic) message(connected bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.pairs+t.groups+t.wanted > 0:
		return false
	case connected:
		t.messages++
	case t.collectives+t.messages == 0:
		t.pairs++
	default:
		return false
	}
	return true
}

// connected says that a pair's first message is queued.
func (t *traffic) connected() {
	t.mu.Lock()
	t.messages++
	t.mu.Unlock()
	t.less(&t.pairs)
}

// messageDone ends a message of a pair that is connected, or gives up beginning one.
func (t *traffic) messageDone(connected bool) {
	if connected {
		t.less(&t.messages)
	} else {
		t.less(&t.pairs)
	}
}
