package program

import (
	"errors"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// goesOn is work that its device goes on with when Wait and Drop have returned.
type goesOn struct {
	joined *int
	err    error
}

func (l goesOn) Name() string   { return "late" }
func (l goesOn) String() string { return "late" }
func (l goesOn) Start(_ backend.Device, in, out *backend.View) Flight {
	in.Block.SetArrival(l)
	out.Block.SetArrival(l)
	return l
}
func (l goesOn) Wait() error { return l.err }
func (l goesOn) Drop(error)  {}
func (l goesOn) Join()       { *l.joined++ }

// What is queued after a run waits for the work that a device does in its memory, also where
// the run or the work has failed: the memory is another program's then.
func TestFlightsJoin(t *testing.T) {
	failed := errors.New("it fails")
	for name, c := range map[string]struct {
		err   error
		await bool
	}{"done": {nil, true}, "failed": {failed, true}, "dropped": {nil, false}} {
		joined := 0
		out := &memory.Block{}
		work := Outside{Work: goesOn{&joined, c.err}, Reads: true}
		begin := &backend.Call{In: []backend.View{{Block: &memory.Block{}}}, Out: backend.View{Block: out}}
		var f flights
		if err := f.queue(nil, &Step{Op: op.Begin, Attrs: work, Out: Ref{Value: 7}}, begin); err != nil {
			t.Fatal(err)
		}
		if c.await {
			await := &backend.Call{In: []backend.View{{Block: out}}, Out: backend.View{Block: out}}
			if err := f.queue(nil, &Step{Op: op.Await, Attrs: work, In: []Ref{{Value: 7}}}, await); err != c.err {
				t.Errorf("%s: %v", name, err)
			}
		}
		f.end(failed)
		if joined != 2 {
			t.Errorf("%s: %d of 2 blocks are waited for", name, joined)
		}
	}
}
