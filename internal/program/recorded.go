package program

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Recorded runs a program as one piece of work of its device, or as several where there
// are steps between that are not the device's. A recording has fixed
// addresses: temporary values and results lie in the arena, and results are copied from
// there; variables are updated in place; an argument that lies elsewhere than when it
// was recorded is copied to a place of its own from then on. Otherwise, as after a
// variable was set from outside, the program is recorded again.
type Recorded struct {
	p       *Program
	donated []Donation
	plan    *Plan
	device  backend.Device
	pool    *memory.Pool
	frame   *frame
	labels  []func() memory.Label
	makers  []int
	donor   []bool          // by value: something is written over it
	copies  []*backend.Call // by value: its copy, once there is one
	results []int           // values that are copied from the arena
	news    []int           // values that are made in memory of their own
	late    []bool

	region  memory.Region
	private memory.Region   // instead of the arena; kept until Close
	at      []address       // by value: where it is in the calls
	fixed   []*memory.Block // by value: the place of its own, or nil
	blocks  []*memory.Block // by value, during a run
	offers  []*Binding
	taking  taking
	made    []int

	stretches []stretch
	live      bool // there is a recording
	flying    flights
	last      []op.Attrs // by step: of late ones, as the recording has them
	copied    int        // bytes that each run copies
	records   int        // recordings made
	missed    int        // runs that could not write over a variable's old value
	misses    []int      // by value: how often it was the new one
	miss      bool       // the present one is such a run
	replays   int
	later     string // why it is not recorded yet, where the device asked for time
	why       string // it is of no use any more
}

// stretch is steps that are recorded as one, or one step that the device does not
// run.
type stretch struct {
	from, to  int
	outside   bool
	recording backend.Recording // nil if there is none, or if it is not worth it
}

// stretches cuts a program at the steps that the device does not run.
func (p *Program) stretches() []stretch {
	var l []stretch
	for i := range p.Steps {
		out := p.Steps[i].outside()
		if n := len(l); n == 0 || out || l[n-1].outside {
			l = append(l, stretch{from: i, outside: out})
		}
		l[len(l)-1].to = i + 1
	}
	return l
}

// address is where a value begins.
type address struct {
	memory.Region
	offset int // elements
}

const (
	// minSteps is the length from which a program is worth a recording.
	minSteps = 3
	// copyPerStep is how many bytes a run may copy for each of its steps. Queueing a call
	// takes the host some microseconds, in which a card copies more than this.
	copyPerStep = 4 << 20
	// maxRecords is the number of recordings after which they must have been worth it.
	maxRecords = 8
	// minReplays is how often a recording is replayed if it was worth it.
	minReplays = 4
)

// NewRecorded returns an executor of p, which must not change afterwards, or says why
// the program is not worth it. The device is a backend.Recorder.
func NewRecorded(p *Program, donated []Donation, device backend.Device, pool *memory.Pool) (*Recorded, string) {
	n := len(p.Values)
	plan := p.Plan(donated, true)
	r := &Recorded{p: p, donated: donated, plan: plan, device: device, pool: pool, frame: newFrame(p), labels: labels(p), makers: p.makers(), late: make([]bool, len(p.Steps)),
		at: make([]address, n), fixed: make([]*memory.Block, n), blocks: make([]*memory.Block, n), offers: make([]*Binding, n), taking: taking{over: make([]bool, n)}, last: make([]op.Attrs, len(p.Steps)),
		misses: make([]int, n), donor: make([]bool, n), copies: make([]*backend.Call, n)}
	if len(p.Steps) < minSteps {
		return nil, fmt.Sprintf("%d steps are not worth it", len(p.Steps))
	}
	for i := range p.Steps {
		r.late[i] = p.Steps[i].Late != nil
	}
	r.stretches = p.stretches()
	for _, from := range plan.Over {
		if from >= 0 {
			r.donor[from] = true
		}
	}
	seen := make([]bool, n)
	for _, o := range p.Results {
		v := o.Value
		if v < 0 || seen[v] || p.Values[v].Kind != Temp {
			continue
		}
		seen[v] = true
		if plan.Over[v] >= 0 {
			r.news = append(r.news, v)
			continue
		}
		r.results = append(r.results, v)
		r.copied += p.Values[v].Bytes
	}
	if !r.worth() {
		return nil, fmt.Sprintf("each run would copy %d bytes of results", r.copied)
	}
	runtime.SetFinalizer(r, (*Recorded).Close)
	return r, ""
}

func (r *Recorded) worth() bool { return r.copied <= copyPerStep*len(r.p.Steps) }

// Close frees what the recording holds.
func (r *Recorded) Close() {
	r.drop()
	if r.private.Size > 0 {
		r.pool.Return(r.private)
		r.private, r.region = memory.Region{}, memory.Region{}
	}
	for v, b := range r.fixed {
		if b != nil {
			b.Free()
			r.fixed[v] = nil
		}
	}
}

// drop ends the recording.
func (r *Recorded) drop() {
	for i := range r.stretches {
		if s := &r.stretches[i]; s.recording != nil {
			s.recording.Close()
			s.recording = nil
		}
	}
	r.live = false
}

// Run is Planned's Run.
func (r *Recorded) Run(outside []Binding) (blocks []*memory.Block, err error) {
	defer func() {
		if err != nil {
			r.taking.undo()
			for _, v := range r.made {
				r.blocks[v].Free()
			}
			r.Clear()
		}
		r.made, r.miss = r.made[:0], false
		r.taking.forget()
		clear(r.offers)
	}()
	if r.plan.Arena > 0 {
		back, err := r.lease()
		if err != nil {
			return nil, &noArena{err}
		}
		defer back()
	}
	defer func() { r.flying.end(err) }() // before the arena is somebody else's
	for i := range outside {
		r.bind(&outside[i])
		if a := outside[i].Block.Arrival(); a != nil {
			a.Join() // the calls have other handles of the memory
		}
	}
	for _, v := range r.results {
		if err := r.allocate(v); err != nil {
			return nil, err
		}
	}
	for _, v := range r.news {
		if err := r.renew(v); err != nil {
			return nil, err
		}
	}
	for i := range outside {
		if b := &outside[i]; r.fixed[b.Value] != nil {
			if err := r.copy(r.fixed[b.Value], b.Block, b.Offset, b.Value); err != nil {
				return nil, err
			}
		}
	}
	if err := r.work(); err != nil {
		return nil, err
	}
	for _, v := range r.results {
		if r.makers[v] < 0 {
			continue // without elements
		}
		if err := r.copy(r.blocks[v], r.piece(v), 0, v); err != nil {
			return nil, err
		}
	}
	return r.blocks, nil
}

// work replays the recording, or runs the calls and records them. While somebody watches
// calls, the calls are run one by one.
func (r *Recorded) work() error {
	watched := backend.Watched()
	if r.live && !watched && !r.set() {
		r.drop()
	}
	replay := r.live && !watched
	if replay {
		r.replays++
	}
	for k := range r.stretches {
		x := &r.stretches[k]
		if !replay || x.recording == nil {
			if err := r.calls(x.from, x.to); err != nil {
				return err
			}
			continue
		}
		if err := x.recording.Replay(); err != nil {
			r.drop() // it may be of no use any more; the next run finds out
			return err
		}
	}
	if !r.live {
		r.record()
	}
	return nil
}

// calls runs steps one by one.
func (r *Recorded) calls(from, to int) error {
	for i := from; i < to; i++ {
		s, c := &r.p.Steps[i], &r.frame.calls[i]
		if s.Late != nil {
			c.Attrs = s.Late()
			if !r.live {
				r.last[i] = c.Attrs
			}
		}
		if err := r.flying.queue(r.device, s, c); err != nil {
			return &StepError{s, err}
		}
	}
	return nil
}

// set passes the present attributes to the recording. It reports false if that
// failed.
func (r *Recorded) set() bool {
	for k := range r.stretches {
		x := &r.stretches[k]
		for i := x.from; i < x.to && x.recording != nil; i++ {
			if !r.late[i] {
				continue
			}
			c := &r.frame.calls[i]
			c.Attrs = r.p.Steps[i].Late()
			if c.Attrs == r.last[i] {
				continue
			}
			if x.recording.Set(i-x.from, c) != nil {
				return false
			}
			r.last[i] = c.Attrs
		}
	}
	return true
}

// record records the calls, which have just been run.
func (r *Recorded) record() {
	if r.why != "" {
		return
	}
	if n := r.records + r.missed; n >= maxRecords && r.replays < minReplays*n {
		r.why = fmt.Sprintf("variables or arguments lay elsewhere too often: %d recordings were replayed %d times, and %d runs could not update a variable in place", r.records, r.replays, r.missed)
		return
	}
	if r.miss { // at the next run that variable lies elsewhere
		r.missed++
		return
	}
	calls := make([]*backend.Call, len(r.frame.calls))
	for i := range calls {
		calls[i] = &r.frame.calls[i]
	}
	r.later = ""
	for k := range r.stretches {
		x := &r.stretches[k]
		if x.outside || x.to-x.from < minSteps {
			continue
		}
		recording, err := r.device.(backend.Recorder).RecordCalls(calls[x.from:x.to], r.late[x.from:x.to])
		if errors.Is(err, backend.ErrLater) { // until then the calls run one by one
			r.drop()
			r.later = err.Error()
			return
		}
		if err != nil {
			r.drop()
			r.why = "the device cannot record it: " + err.Error()
			return
		}
		x.recording, r.live = recording, true
	}
	if !r.live {
		r.why = "there are only short stretches between its collectives"
		return
	}
	r.records++
}

// pieces returns the number of pieces of work as which the program is replayed.
func (r *Recorded) pieces() string {
	n, between := 0, 0
	for i := range r.stretches {
		switch x := &r.stretches[i]; {
		case x.recording != nil:
			n++
		case x.outside:
			between++
		}
	}
	if between == 0 {
		return "one piece"
	}
	return fmt.Sprintf("%d pieces with collectives between", n)
}
