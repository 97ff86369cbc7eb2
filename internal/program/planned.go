package program

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
)

// Planned runs a program in memory that was laid out before: temporary values lie in
// the device's arena, and what a variable is set to in the memory of what it held. One
// goroutine at a time may use it.
type Planned struct {
	p      *Program
	plan   *Plan
	device backend.Device
	pool   *memory.Pool
	queues bool // the device works later than it is called
	waits  bool // for other programs, which must not wait for the arena meanwhile
	frame  *frame
	labels []func() memory.Label

	region memory.Region   // where the pieces are
	pieces []*memory.Block // by value: those in the arena
	own    []int           // values that have memory of their own, and are made by a run
	over   []int           // of them, those that may be written over a variable's old value
	makers []int
	blocks []*memory.Block // by value, during a run
	offers []*Binding      // by value, during a run
	taking taking
	made   []int // values whose blocks this run has allocated
	outer  []int // values that are bound
	flying flights

	prepared bool
}

// NewPlanned returns an executor of p, which must not change afterwards.
func NewPlanned(p *Program, plan *Plan, device backend.Device, pool *memory.Pool) *Planned {
	r := &Planned{p: p, plan: plan, device: device, pool: pool, queues: device.Info().Kind != backend.CPU, waits: p.Waits(),
		frame: newFrame(p), labels: labels(p), pieces: make([]*memory.Block, len(p.Values)), blocks: make([]*memory.Block, len(p.Values)), offers: make([]*Binding, len(p.Values)), taking: taking{over: make([]bool, len(p.Values))}, makers: p.makers()}
	kept := make([]bool, len(p.Values))
	for _, o := range p.Results {
		if o.Value >= 0 {
			kept[o.Value] = true
		}
	}
	for i, v := range p.Values {
		switch {
		case v.Kind != Temp || plan.Offset[i] >= 0 || !kept[i] && r.makers[i] < 0:
		case plan.Over[i] >= 0:
			r.over = append(r.over, i)
		default:
			r.own = append(r.own, i)
		}
	}
	return r
}

// Run is Runner's Run. Where the old value of a variable is offered, and can be taken,
// the new one is in the same memory. That is taken over as late as possible: until then
// others may read the old value.
func (r *Planned) Run(outside []Binding) (blocks []*memory.Block, err error) {
	defer func() {
		if err != nil {
			r.taking.undo()
			for _, v := range r.made {
				r.blocks[v].Free()
			}
			r.Clear()
		}
		r.end()
	}()
	for i := range outside {
		b := &outside[i]
		r.bind(b.Value, b.Block, b.Offset)
		r.offers[b.Value] = b
	}
	for _, v := range r.own {
		if err := r.allocate(v); err != nil {
			return nil, err
		}
	}
	if r.plan.Arena > 0 {
		lent, err := r.lease()
		if err != nil {
			return nil, &noArena{err}
		}
		defer r.endLease(lent)
	}
	defer func() { r.flying.end(err) }() // before the arena is somebody else's
	r.prepare()
	for i := range r.frame.calls {
		s, c := &r.p.Steps[i], &r.frame.calls[i]
		if i == r.plan.First {
			if err := r.take(); err != nil {
				return nil, err
			}
		}
		if s.Late != nil {
			c.Attrs = s.Late()
		}
		if err := r.flying.queue(r.device, s, c); err != nil {
			return nil, &StepError{s, err}
		}
	}
	return r.blocks, nil
}

// prepare shows the device the calls before the first run.
func (r *Planned) prepare() {
	d, ok := r.device.(backend.Preparer)
	if r.prepared || !ok {
		return
	}
	r.prepared = true
	last := len(r.frame.calls)
	for _, v := range r.over { // the place of what is not taken over yet is known
		if from := r.offers[r.plan.Over[v]]; from != nil {
			r.frame.bind(v, from.Block, from.Offset)
		} else {
			last = r.plan.First
		}
	}
	var calls []*backend.Call
	for i := range r.frame.calls[:last] {
		if c := &r.frame.calls[i]; !r.p.Steps[i].outside() && (r.p.Steps[i].Late == nil || c.Attrs != nil) {
			calls = append(calls, c)
		}
	}
	d.Prepare(calls)
	for _, v := range r.over {
		r.frame.bind(v, nil, 0)
	}
}

// take makes room for what variables are set to.
func (r *Planned) take() error {
	for _, v := range r.over {
		from := r.offers[r.plan.Over[v]]
		if from == nil {
			if err := r.allocate(v); err != nil {
				return err
			}
			continue
		}
		b := r.taking.take(from, v)
		if b == nil {
			if err := r.allocate(v); err != nil {
				return err
			}
			continue
		}
		r.bind(from.Value, b, 0)
		r.bind(v, b, 0)
	}
	return nil
}

// end forgets what belongs to a run: the program keeps no memory alive.
func (r *Planned) end() {
	r.taking.forget()
	r.made = r.made[:0]
	for _, v := range r.outer {
		r.frame.bind(v, nil, 0)
		r.offers[v] = nil
	}
	r.outer = r.outer[:0]
}

func (r *Planned) allocate(v int) error {
	b, err := r.pool.Allocate(r.p.Values[v].Bytes, r.labels[v])
	if err != nil {
		return r.at(v, err)
	}
	r.made = append(r.made, v)
	r.bind(v, b, 0)
	return nil
}

func (r *Planned) bind(v int, b *memory.Block, offset int) {
	r.blocks[v] = b
	r.frame.bind(v, b, offset)
	r.outer = append(r.outer, v)
}

// at names the step that makes a value.
func (r *Planned) at(v int, err error) error {
	if i := r.makers[v]; i >= 0 {
		return &StepError{&r.p.Steps[i], err}
	}
	return err
}

// noArena says that there is no room for the arena in one piece.
type noArena struct{ err error }

func (e *noArena) Error() string { return e.err.Error() }
func (e *noArena) Unwrap() error { return e.err }

// lease lets the program's temporary values lie in the arena until endLease. On a device
// that works at once programs of other goroutines run at the same time: where one of
// them has the arena this one borrows memory, and lent is true. A program that waits for
// others always does.
func (r *Planned) lease() (lent bool, err error) {
	var region memory.Region
	ok := false
	if !r.waits {
		region, ok, err = r.pool.Arena().Lease(r.plan.Arena, r.queues, arenaLabel)
	}
	if err == nil && !ok {
		region, err = r.pool.Lend(r.plan.Arena, arenaLabel())
	}
	if err != nil {
		return false, err
	}
	r.layOut(region)
	return !ok, nil
}

func (r *Planned) endLease(lent bool) {
	region := r.region
	if !r.queues {
		r.forget()
	}
	if lent {
		r.pool.Return(region)
	} else {
		r.pool.Arena().Return()
	}
}

// layOut makes the pieces of the arena, where it is another one than at the last run.
// What is queued keeps its pieces.
func (r *Planned) layOut(region memory.Region) {
	if region == r.region {
		return
	}
	r.region = region
	for v, at := range r.plan.Offset {
		if at < 0 {
			continue
		}
		piece := region.Slice(at, r.p.Values[v].Bytes)
		if b := r.pieces[v]; b != nil && !r.queues {
			b.Region = piece
			continue
		}
		r.pieces[v] = r.pool.Piece(piece)
		r.frame.bind(v, r.pieces[v], 0)
	}
}

// forget lets go of the arena's memory: what the host's arena has released is freed
// only when nothing refers to it.
func (r *Planned) forget() {
	r.region = memory.Region{}
	for _, b := range r.pieces {
		if b != nil {
			b.Region = memory.Region{}
		}
	}
}

// Over reports whether a value of the last run is written over what a variable held.
func (r *Planned) Over(v int) bool { return r.taking.over[v] }

// Clear forgets the blocks of the last run.
func (r *Planned) Clear() {
	clear(r.blocks)
	clear(r.taking.over)
}
