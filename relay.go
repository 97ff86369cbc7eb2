package locus

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// executor runs the program of a plan: a program.Executor, or a relay of several.
type executor interface {
	Run(outside []program.Binding, ready bool) (blocks []*memory.Block, err error)
	Over(value int) bool
	Clear()
	Close()
	Donates() bool
	Donated() []program.Donation
	Summary() string
	Explain() []string
}

// relay runs a function that computes on several devices: one after the other what a device
// computes, and the copies to the next. Devices that queue work at the same time, as they
// would without a program.
//
// Only the part that runs last writes over what variables held: so a call that fails leaves
// all of them as they were, whichever device fails.
type relay struct {
	prog   *program.Program
	pieces []relayPiece
	last   *relayPart
	blocks []*memory.Block // by value, during a run
	shift  []int           // by value from outside: where it begins
	bound  []*program.Binding
	made   []bool // by value: this run has made its block
	failed *place // whose part has failed
}

// relayPiece is a copy or a part.
type relayPiece struct {
	move *program.Step
	part *relayPart
	ends []int
}

// relayPart is what one device computes between copies.
type relayPart struct {
	place *place
	body  *program.Program
	again string
	exec  *program.Executor
	needs []int // values that are bound
	makes []int // values that outlive it

	bindings []program.Binding
}

// newRelay returns what runs prog, which computes on several devices. wanted are donations
// as in program.NewExecutor.
func newRelay(prog *program.Program, wanted []program.Donation, recompute bool) *relay {
	n := len(prog.Values)
	r := &relay{prog: prog, blocks: make([]*memory.Block, n), shift: make([]int, n), bound: make([]*program.Binding, n), made: make([]bool, n)}
	for _, x := range prog.Split() {
		piece := relayPiece{move: x.Move, ends: x.Ends}
		if x.Part != nil {
			piece.part = newRelayPart(&x, recompute)
			r.last = piece.part
		}
		r.pieces = append(r.pieces, piece)
	}
	for _, part := range r.parts() {
		var list []program.Donation
		if part == r.last {
			list = slices.DeleteFunc(slices.Clone(wanted), func(d program.Donation) bool { return !slices.Contains(part.makes, d.To) })
		}
		part.exec = program.NewExecutor(part.body, list, part.place.backend, part.place.pool)
	}
	return r
}

func newRelayPart(x *program.Piece, recompute bool) *relayPart {
	part := &relayPart{place: placeOf(x.Device)}
	for v := range x.Part.Values {
		if x.Part.Values[v].Kind != program.Temp {
			part.needs = append(part.needs, v)
		}
	}
	for _, o := range x.Part.Results {
		part.makes = append(part.makes, o.Value)
	}
	part.body, part.again = lower(x.Part, x.Device, recompute)
	return part
}

// parts lists the parts in their order.
func (r *relay) parts() (l []*relayPart) {
	for _, x := range r.pieces {
		if x.part != nil {
			l = append(l, x.part)
		}
	}
	return l
}

// Run is program.Executor's.
func (r *relay) Run(outside []program.Binding, ready bool) ([]*memory.Block, error) {
	done := false
	defer func() {
		clear(r.bound)
		if !done { // a copy may panic
			for v, b := range r.blocks {
				if r.made[v] {
					b.Free()
				}
			}
			r.Clear()
		}
		clear(r.made)
	}()
	r.failed = nil
	for i := range outside {
		b := &outside[i]
		r.blocks[b.Value], r.shift[b.Value], r.bound[b.Value] = b.Block, b.Offset, b
	}
	for i := range r.pieces {
		x := &r.pieces[i]
		if x.move != nil {
			r.move(x.move)
		} else if err := r.run(x.part, ready); err != nil {
			r.failed = x.part.place
			return nil, err
		}
		for _, v := range x.ends {
			r.blocks[v].Free()
			r.blocks[v], r.made[v] = nil, false
		}
	}
	done = true
	return r.blocks, nil
}

func (r *relay) run(part *relayPart, ready bool) error {
	for _, v := range part.needs {
		b := program.Binding{Value: v, Block: r.blocks[v]}
		if from := r.bound[v]; from != nil {
			b = *from
			b.Offered = b.Offered && part == r.last
		}
		part.bindings = append(part.bindings, b)
	}
	blocks, err := part.exec.Run(part.bindings, ready)
	clear(part.bindings)
	part.bindings = part.bindings[:0]
	if err != nil {
		return err
	}
	for _, v := range part.makes {
		r.blocks[v], r.made[v] = blocks[v], true
	}
	return nil
}

// move copies a tensor from one device to another, as To does.
func (r *relay) move(s *program.Step) {
	tensor := func(o *program.Ref) *Tensor {
		v := &o.View
		return &Tensor{shape: v.Shape, strides: v.Strides, offset: v.Offset + r.shift[o.Value], dtype: v.DType, place: placeOf(r.prog.Values[o.Value].On), block: r.blocks[o.Value]}
	}
	src := tensor(&s.In[0])
	to := placeOf(r.prog.Values[s.Out.Value].On)
	value := &r.prog.Values[s.Out.Value]
	b, err := to.pool.Allocate(value.Bytes, func() memory.Label {
		return memory.Label{DType: value.Spec.DType.String(), Shape: op.ShapeString(value.Spec.Shape)}
	})
	if err != nil {
		failOn(to, "To", err, []*Tensor{src})
	}
	r.blocks[s.Out.Value], r.made[s.Out.Value] = b, true
	move(tensor(&s.Out), src, s.Site)
}

// Over is program.Executor's.
func (r *relay) Over(value int) bool {
	return slices.Contains(r.last.makes, value) && r.last.exec.Over(value)
}

// Clear is program.Executor's.
func (r *relay) Clear() {
	clear(r.blocks)
	clear(r.shift)
	for _, part := range r.parts() {
		part.exec.Clear()
	}
}

// Close is program.Executor's.
func (r *relay) Close() {
	for _, part := range r.parts() {
		part.exec.Close()
	}
}

// Donates is program.Executor's.
func (r *relay) Donates() bool { return r.last.exec.Donates() }

// Donated is program.Executor's.
func (r *relay) Donated() []program.Donation { return r.last.exec.Donated() }

// Summary is program.Executor's.
func (r *relay) Summary() string {
	text := fmt.Sprintf("%d copies between devices", len(r.pieces)-len(r.parts()))
	var seen []*place
	for _, first := range r.parts() {
		if slices.Contains(seen, first.place) {
			continue
		}
		seen = append(seen, first.place)
		parts, steps := 0, 0
		for _, x := range r.parts() {
			if x.place == first.place {
				parts++
				steps += len(x.body.Steps)
			}
		}
		text += fmt.Sprintf("; %d steps on %s", steps, first.place.device)
		if parts > 1 {
			text += fmt.Sprintf(" in %d parts", parts)
		}
	}
	return text
}

// Explain lists the parts and the copies between them.
func (r *relay) Explain() []string {
	lines := []string{fmt.Sprintf("several devices: %d parts, and %d copies between them; only the last part writes over variables", len(r.parts()), len(r.pieces)-len(r.parts()))}
	for _, x := range r.pieces {
		if m := x.move; m != nil {
			from, to := &r.prog.Values[m.In[0].Value], &r.prog.Values[m.Out.Value]
			lines = append(lines, fmt.Sprintf("copy %%%d of %s to %%%d of %s, %d bytes  # %s", m.In[0].Value, placeOf(from.On).device, m.Out.Value, placeOf(to.On).device, to.Bytes, m.Site))
			continue
		}
		lines = append(lines, fmt.Sprintf("on %s:", x.part.place.device))
		for _, l := range append(x.part.exec.Explain(), explainBody(x.part.body, x.part.again, x.part.place.backend)...) {
			lines = append(lines, "  "+l)
		}
	}
	return lines
}

// forgetData lets go of Go data, which lies on the devices.
func (r *relay) forgetData() {
	for _, part := range r.parts() {
		for i := range part.body.Values {
			part.body.Values[i].Data = nil
		}
	}
}
