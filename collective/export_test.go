package collective

import (
	"fmt"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/nccl"
)

// fakeCard is a virtual GPU as a card of NCCL's.
type fakeCard struct {
	backend.Device
	name string
}

func (c *fakeCard) WithContext(f func() error) error { return f() }
func (c *fakeCard) Card() string                     { return c.name }

// Foreign waits for what is queued, and for the work.
func (c *fakeCard) Foreign(in []*memory.Block, out *memory.Block, queue func(stream uintptr) error, release func()) (backend.Event, error) {
	defer release()
	if err := c.Synchronize(); err != nil {
		return nil, err
	}
	if err := queue(1); err != nil {
		return nil, err
	}
	return c.Record(), nil
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
			all[b] = &fakeCard{b, name}
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
