package collective

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/nccl"
)

// fakeCard is a virtual GPU as a card of NCCL's.
type fakeCard struct {
	backend.Device
	name  string
	lanes atomic.Int32 // in use
	fence func()       // called by Fence; may be nil

	collectives, messages atomic.Int32 // under way
}

// alone counts work that must not be beside n of another kind.
func alone(own, other *atomic.Int32, queue func(stream uintptr) error) error {
	if n := other.Load(); own.Add(1) > 0 && n > 0 {
		return errors.New("a message and a collective are on the card at a time")
	}
	defer own.Add(-1)
	return queue(1)
}

func (c *fakeCard) WithContext(f func() error) error { return f() }
func (c *fakeCard) Card() string                     { return c.name }

// Foreign waits for what is queued, and for the work.
func (c *fakeCard) Foreign(in []*memory.Block, out *memory.Block, queue func(stream uintptr) error, release func()) (backend.Event, error) {
	defer release()
	if err := c.Synchronize(); err != nil {
		return nil, err
	}
	if err := alone(&c.collectives, &c.messages, queue); err != nil {
		return nil, err
	}
	return c.Record(), nil
}

// Fence marks the end of the queue.
func (c *fakeCard) Fence(*memory.Block) (backend.Event, error) {
	if c.fence != nil {
		c.fence()
	}
	return c.Record(), nil
}

func (c *fakeCard) OpenLane() (int, error) { return int(c.lanes.Add(1)), nil }
func (c *fakeCard) CloseLane(int)          { c.lanes.Add(-1) }

// OnLane waits for the work.
func (c *fakeCard) OnLane(_ int, _ *memory.Block, queue func(stream uintptr) error, release func()) error {
	defer release()
	if err := c.Synchronize(); err != nil { // where it is lost
		return err
	}
	if c.messages.Load() > 0 {
		return errors.New("two messages are on the card at a time")
	}
	return alone(&c.messages, &c.collectives, queue)
}

// FakeCards makes virtual GPUs cards, for which a fake NCCL of some version serves; shared
// makes one card of all of them.
func FakeCards(t testing.TB, version int, shared bool) {
	cards, load := asCard, loadNCCL
	lib := nccl.Fake(version)
	all := map[backend.Device]*fakeCard{}
	mu := make(chan struct{}, 1)
	asCard = func(b backend.Device) card {
		if b.Info().Kind != backend.GPU {
			return nil
		}
		mu <- struct{}{}
		defer func() { <-mu }()
		if all[b] == nil {
			name := "card"
			if !shared {
				name = fmt.Sprint("card ", len(all))
			}
			all[b] = &fakeCard{Device: b, name: name}
		}
		return all[b]
	}
	loadNCCL = func(name string) (*nccl.Library, string) {
		if name == "ring" || name == "mpi" {
			return nil, "not asked for"
		}
		return lib, ""
	}
	t.Cleanup(func() { asCard, loadNCCL = cards, load })
}

// Apart makes ranks of one test program look like processes of their own.
func Apart(t interface{ Cleanup(func()) }) {
	was := processOf
	t.Cleanup(func() { processOf = was })
	processOf = func(rank int) int { return rank }
}

// Busy says what NCCL has under way on a tensor's card, "" if nothing.
func Busy(x *locus.Tensor) string {
	t := trafficOf(asCard(lend.Backend(x)))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.collectives|t.groups|t.wanted == 0 && !t.message {
		return ""
	}
	return fmt.Sprintf("%d collectives, a message: %v, %d and %d groups", t.collectives, t.message, t.groups, t.wanted)
}

// Lanes returns how many lanes of a tensor's card are in use.
func Lanes(x *locus.Tensor) int { return int(asCard(lend.Backend(x)).(*fakeCard).lanes.Load()) }
