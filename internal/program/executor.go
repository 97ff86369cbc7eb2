package program

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/units"
)

// Mode is how far programs are prepared before they run.
type Mode int32

// The modes.
const (
	Best    Mode = iota // recorded where the device can, else planned
	InPlan              // planned: never recorded
	Default             // step by step, each with memory of its own
)

var mode atomic.Int32

// SetMode sets how programs run, for tests that compare, and returns the mode before.
// All modes compute the same.
func SetMode(m Mode) (old Mode) { return Mode(mode.Swap(int32(m))) }

// Executor runs a program in the best way that there is. One goroutine at a time may
// use it.
type Executor struct {
	p       *Program
	device  backend.Device
	pool    *memory.Pool
	donated []Donation
	refused []string

	plan     *Plan
	planned  *Planned
	recorded *Recorded
	runner   *Runner
	why      string      // it is not recorded
	ran      interface { // what ran it last
		Over(value int) bool
		Clear()
	}
	tight int // runs without an arena, since there was no room for it
}

// NewExecutor returns an executor of p on a device. wanted are the values of variables,
// before and after a run, of which the first may be written over. It may change the
// order of p's steps; afterwards p must not change.
func NewExecutor(p *Program, wanted []Donation, device backend.Device, pool *memory.Pool) *Executor {
	e := &Executor{p: p, device: device, pool: pool}
	e.donated, e.refused = p.Donate(wanted)
	p.join(e.donated, func(d dtype.DType) bool { return device.Supports(op.UpdateAll, d) })
	e.plan = p.Plan(e.donated, false)
	return e
}

// Donated returns whose memory a run may write over, if it is offered.
func (e *Executor) Donated() []Donation { return e.donated }

// Donates reports whether runs write over anything at present.
func (*Executor) Donates() bool { return Mode(mode.Load()) != Default }

// Run runs the program with the given memory for the values that are not temporary,
// which the caller holds. It returns the blocks of the values, which are valid until
// Clear; those that were made for results are the caller's. What is offered may have
// been taken over: then its block is freed, and the value that was written over it is
// in another block of the same memory, which is freed as the old one would have been.
// On an error nothing is written over, and everything that the run has made is freed.
// ready says that the program will be run often.
func (e *Executor) Run(outside []Binding, ready bool) (blocks []*memory.Block, err error) {
	if w := backend.Pieces(); w != nil {
		err = w.Piece(e.device, e.p, func() error {
			blocks, err = e.run(outside, ready)
			return err
		})
		return blocks, err
	}
	return e.run(outside, ready)
}

func (e *Executor) run(outside []Binding, ready bool) ([]*memory.Block, error) {
	m := Mode(mode.Load())
	if m == Default {
		return e.step(outside)
	}
	if m == Best && ready {
		if r := e.record(); r != nil {
			blocks, err := r.Run(outside)
			if noRoom(err) {
				return e.step(outside)
			}
			e.ran = r
			switch {
			case r.why != "":
				e.why, e.recorded = r.why, nil
				r.Close()
			case r.missed >= maxMisses && r.replays < minReplays*r.missed:
				e.copyMore(r)
			}
			return blocks, err
		}
	}
	if e.planned == nil {
		e.planned = NewPlanned(e.p, e.plan, e.device, e.pool)
	}
	blocks, err := e.planned.Run(outside)
	if noRoom(err) {
		return e.step(outside)
	}
	e.ran = e.planned
	return blocks, err
}

// noRoom reports whether there was no room for the arena. Piece by piece there may be.
func noRoom(err error) bool {
	_, no := err.(*noArena)
	return no
}

// step runs the program without a plan.
func (e *Executor) step(outside []Binding) ([]*memory.Block, error) {
	if e.runner == nil {
		e.runner = NewRunner(e.p, e.device, e.pool)
	}
	e.tight++
	e.ran = e.runner
	return e.runner.Run(outside)
}

// record returns what runs the program recorded, or nil.
func (e *Executor) record() *Recorded {
	if e.recorded != nil || e.why != "" {
		return e.recorded
	}
	if _, ok := e.device.(backend.Recorder); !ok {
		e.why = "the device works at once"
		return nil
	}
	e.recorded, e.why = NewRecorded(e.p, e.donated, e.device, e.pool)
	e.planned = nil
	return e.recorded
}

// maxMisses is how often variables may be found in use before they are copied.
const maxMisses = 3

// copyMore makes a new recorded executor, in which variables that could not be written
// over are copied instead: somebody looks at them all the time.
func (e *Executor) copyMore(r *Recorded) {
	left := slices.DeleteFunc(slices.Clone(r.donated), func(d Donation) bool { return r.misses[d.To] >= maxMisses-1 })
	if len(left) == len(r.donated) {
		return // it was another variable each time
	}
	r.Close()
	e.recorded, e.why = NewRecorded(e.p, left, e.device, e.pool)
}

// Over reports whether a value of the last run is written over what a variable held.
func (e *Executor) Over(value int) bool { return e.ran.Over(value) }

// Clear forgets the blocks of the last run.
func (e *Executor) Clear() {
	if e.ran != nil {
		e.ran.Clear()
		e.ran = nil
	}
}

// Close frees what the device holds for the program, which can be run nevertheless.
func (e *Executor) Close() {
	if e.recorded != nil {
		e.recorded.Close()
		e.recorded = nil
	}
}

// Summary is Explain in short.
func (e *Executor) Summary() string {
	plan, donated := e.plan, e.donated
	if e.recorded != nil {
		plan, donated = e.recorded.plan, e.recorded.donated
	}
	s := fmt.Sprintf("%s of temporary memory", units.Bytes(plan.Arena))
	if len(donated) > 0 {
		s += fmt.Sprintf(", %d variables updated in place", len(donated))
	}
	if e.recorded != nil && e.recorded.live {
		s += ", replayed as " + e.recorded.pieces()
	}
	return s
}

// Explain describes the memory of the program and how it runs, a line each.
func (e *Executor) Explain() []string {
	plan, donated := e.plan, e.donated
	if e.recorded != nil {
		plan, donated = e.recorded.plan, e.recorded.donated
	}
	bytes := 0
	for _, d := range donated {
		bytes += e.p.Values[d.To].Bytes
	}
	lines := []string{fmt.Sprintf("memory: an arena of %d bytes for values of %d bytes in all, %d of them written over an operand; %d variables updated in place, of %d bytes",
		plan.Arena, plan.Sum, plan.Reused, len(donated), bytes)}
	lines = append(lines, e.refused...)
	switch r := e.recorded; {
	case r != nil && r.live:
		lines = append(lines, fmt.Sprintf("recorded: %d recordings, %d replays; each copies %d bytes and is %s", r.records, r.replays, r.copied, r.pieces()))
	case r != nil && r.later != "":
		lines = append(lines, "not recorded yet: "+r.later)
	case r != nil || e.why == "":
		lines = append(lines, "not recorded yet")
	default:
		lines = append(lines, "not recorded: "+e.why)
	}
	if e.tight > 0 && Mode(mode.Load()) != Default {
		lines = append(lines, fmt.Sprintf("%d runs without an arena: there was no room for it", e.tight))
	}
	return lines
}
