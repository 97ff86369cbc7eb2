package backendtest

import (
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// tape is an oracle that records: it runs the calls one after the other, and may do
// something wrong in replays.
type tape struct {
	oracle
	frozen bool // Set changes nothing
	stale  bool // a second replay does nothing
}

func (d *tape) RecordCalls(calls []*backend.Call, late []bool) (backend.Recording, error) {
	r := &tapeRecording{d: d}
	for _, c := range calls {
		r.calls = append(r.calls, *c)
	}
	return r, nil
}

type tapeRecording struct {
	d       *tape
	calls   []backend.Call
	replays int
}

func (r *tapeRecording) Set(i int, c *backend.Call) error {
	if !r.d.frozen {
		r.calls[i].Attrs = c.Attrs
	}
	return nil
}

func (r *tapeRecording) Replay() error {
	if r.replays++; r.d.stale && r.replays > 1 {
		return nil
	}
	for i := range r.calls {
		if err := r.d.Run(&r.calls[i]); err != nil {
			return err
		}
	}
	return nil
}

func (*tapeRecording) Close() {}

// What goes wrong in a replay and not in Run is noticed.
func TestRecordingsAreCompared(t *testing.T) {
	for _, id := range []op.ID{op.Exp, op.RandUniform, op.UpdateAll, op.Blend, op.AdamStep} {
		for _, c := range []struct {
			name    string
			dev     tape
			late    bool // what is wrong shows in late calls
			message string
		}{
			{"right", tape{}, false, ""},
			{"frozen", tape{frozen: true}, true, "replay 0"},
			{"stale", tape{stale: true}, false, "replay 1"},
		} {
			c.dev.fault = func(*backend.Call, []byte) {}
			wrong := c.message != "" && (!c.late || id != op.Exp)
			s, pool := &suite{}, memory.NewPool(&c.dev)
			noticed, tried := 0, 0
			for i, x := range sample.Of(id, dtype.Float32) {
				if x.Big || op.Elements(x.Out.Shape) == 0 || i > 20 {
					continue
				}
				tried++
				if err := s.try(&c.dev, pool, x); err != nil {
					if noticed++; !wrong || !strings.Contains(err.Error(), c.message) {
						t.Errorf("%s, %s: %v", id, c.name, err)
					}
				}
			}
			if tried == 0 || wrong && noticed < tried/2 { // some samples are all NaN
				t.Errorf("%s, %s: noticed in %d of %d samples", id, c.name, noticed, tried)
			}
		}
	}
}
