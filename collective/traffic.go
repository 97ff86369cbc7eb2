package collective

import (
	"context"
	"sync"
)

// traffic is what NCCL does on a card, in all groups of the process. A communicator is made
// only while no kernel of NCCL's is on the card: to make one, the driver may wait for the card, on
// which a kernel may wait for a rank that waits for this communicator. What both sides of a
// pair have agreed on, the making of their communicator and the message itself, never waits
// for anything but the same of other pairs, and so always ends.
type traffic struct {
	mu          sync.Mutex
	collectives int           // under way, or about to be queued
	messages    int           // the same
	pairs       int           // communicators of pairs that are being made
	groups      int           // communicators of groups that are being made
	wanted      int           // and those that wait for messages to end
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

// collective begins a collective, when no pair makes its communicator.
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

// lull waits a moment for messages to end, so that a pair can make its communicator.
func (t *traffic) lull(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = t.until(ctx, func() bool { return t.messages == 0 || t.collectives > 0 }) // message sees
}

// message begins a message, of a pair that has its communicator or else is about to make it.
// It reports false if this is not the moment.
func (t *traffic) message(made bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.groups+t.wanted > 0:
		return false
	case made && t.pairs == 0:
		t.messages++
	case !made && t.collectives+t.messages == 0:
		t.pairs++
	default:
		return false
	}
	return true
}

// made says that a message's pair has its communicator now, and waits for those that other
// pairs are making.
func (t *traffic) made(ctx context.Context) error {
	t.mu.Lock()
	t.messages++ // no other pair begins any more
	t.mu.Unlock()
	t.less(&t.pairs)
	err := t.until(ctx, func() bool { return t.pairs == 0 })
	if err != nil {
		t.less(&t.messages)
	}
	return err
}

// messageDone ends a message whose pair has its communicator, or else gives up making it.
func (t *traffic) messageDone(made bool) {
	if made {
		t.less(&t.messages)
	} else {
		t.less(&t.pairs)
	}
}
