package program

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/virtual"
)

// stubborn is a virtual GPU whose recordings fail in some way.
type stubborn struct {
	*virtual.Device
	record, set, replay error
	open                int // recordings that are not closed
}

type stubbornRecording struct {
	backend.Recording
	d      *stubborn
	closed bool
}

func (d *stubborn) RecordCalls(calls []*backend.Call, late []bool) (backend.Recording, error) {
	if d.record != nil {
		return nil, d.record
	}
	r, err := d.Device.RecordCalls(calls, late)
	d.open++
	return &stubbornRecording{Recording: r, d: d}, err
}

func (r *stubbornRecording) Set(i int, c *backend.Call) error {
	if r.d.set != nil {
		return r.d.set
	}
	return r.Recording.Set(i, c)
}

func (r *stubbornRecording) Replay() error {
	if r.d.replay != nil {
		return r.d.replay
	}
	return r.Recording.Replay()
}

func (r *stubbornRecording) Close() {
	if !r.closed {
		r.closed = true
		r.d.open--
	}
	r.Recording.Close()
}

// late returns a random program with a late step.
func late(t *testing.T) *random {
	for seed := range uint64(100) {
		g := randomUpdates(rand.New(rand.NewPCG(seed, 9)))
		p := g.program()
		if done, _ := p.Donate(g.wanted); len(done) == 0 || len(p.Steps) < 8 {
			continue
		}
		for i := range p.Steps {
			if p.Steps[i].Late != nil {
				return g
			}
		}
	}
	t.Fatal("no random program has a late step")
	return nil
}

// TestRecordingFails: what cannot be recorded, or changed, is computed all the same.
func TestRecordingFails(t *testing.T) {
	g := late(t)
	cpu := machines()["cpu"]
	want, _ := g.history(t, cpu, Default, 40)
	for name, d := range map[string]*stubborn{
		"the device cannot record it: no": {record: errors.New("no")},
		"too often":                       {set: errors.New("no")},
	} {
		d.Device = virtual.New(0, 0)
		m := &machine{Device: d, pool: memory.NewPool(d)}
		got, e := g.history(t, m, Best, 40)
		for i := range want {
			if !slices.Equal(want[i], got[i]) {
				t.Fatalf("%s: result %d differs", name, i)
			}
		}
		if s := strings.Join(e.Explain(), "\n"); !strings.Contains(s, "not recorded: ") || !strings.Contains(s, name) {
			t.Errorf("%q is not in %s", name, s)
		}
		if d.open != 0 {
			t.Errorf("%s: %d recordings are not closed", name, d.open)
		}
	}
}

// TestReplayFails: an error of a replay leaves variables as they were, and everything
// else freed.
func TestReplayFails(t *testing.T) {
	d := &stubborn{Device: virtual.New(0, 0)}
	m := &machine{Device: d, pool: memory.NewPool(d)}
	g := late(t)
	p := g.program()
	e := NewExecutor(p, g.wanted, d, m.pool)
	blocks := make([]*memory.Block, 2+variables)
	for v := range blocks {
		blocks[v] = m.block(t, make([]float32, side*side))
	}
	run := func() error {
		var bindings []Binding
		for v, b := range blocks {
			b.Hold()
			bindings = append(bindings, Binding{Value: v, Block: b, Offered: slices.ContainsFunc(e.Donated(), func(x Donation) bool { return x.From == v })})
		}
		out, err := e.Run(bindings, true)
		for _, b := range blocks {
			b.LetGo()
		}
		if err == nil {
			for k, w := range g.wanted {
				blocks[w.From].Free()
				blocks[w.From] = out[g.results[k].Value]
			}
			for k := variables; k < len(g.results); k++ {
				out[g.results[k].Value].Free()
			}
		}
		e.Clear()
		return err
	}
	for range 4 {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	if e.recorded == nil || e.recorded.replays == 0 {
		t.Fatalf("not replayed: %q", e.Explain())
	}
	in := m.pool.Stats().InUse
	d.replay = errors.New("lost")
	if err := run(); !errors.Is(err, d.replay) {
		t.Errorf("a replay that fails: %v", err)
	}
	for v, b := range blocks {
		if b.Freed() {
			t.Errorf("value %d is freed behind an error", v)
		}
	}
	if now := m.pool.Stats().InUse; now != in {
		t.Errorf("%d bytes in use behind an error, before %d", now, in)
	}
	if d.open != 0 {
		t.Error("a recording that failed is kept")
	}
	for range 3 { // the calls themselves work, and are recorded again
		if err := run(); err != nil && !errors.Is(err, d.replay) {
			t.Error(err)
		}
		d.replay = nil
	}
	if d.open != 1 {
		t.Errorf("%d recordings", d.open)
	}
}

// counter is a watcher that counts.
type counter struct{ n int }

func (c *counter) Run(d backend.Device, call *backend.Call) error {
	c.n++
	return d.Run(call)
}

// TestWatched: who watches calls sees those of a recorded program one by one, and the
// recording stays.
func TestWatched(t *testing.T) {
	g := late(t)
	want, _ := g.history(t, machines()["cpu"], Default, 12)
	m := machines()["virtual"]
	_, plain := g.history(t, m, Best, 12)
	w := &counter{}
	backend.Watch(w)
	got, e := g.history(t, m, Best, 12)
	backend.Watch(nil)
	for i := range want {
		if !slices.Equal(want[i], got[i]) {
			t.Fatalf("result %d differs", i)
		}
	}
	if w.n < 11*len(g.steps) {
		t.Errorf("%d calls of %d steps were seen in 12 runs", w.n, len(g.steps))
	}
	if e.recorded == nil || e.recorded.replays > 0 || e.recorded.records != plain.recorded.records || plain.recorded.replays == 0 {
		t.Errorf("watched: %q\nnot watched: %q", e.Explain(), plain.Explain())
	}
}
