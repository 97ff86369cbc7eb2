package locus

import (
	"slices"

	"github.com/locusml/locus/internal/program"
)

// What a program sets a variable to is written into the memory of what the variable
// held, where f frees that, or the variable would when it is set. The rules are those
// of an optimizer's step: see Tensor.replaceable and memory.Block.Take. Handles of the
// old value are handles of freed memory afterwards, as they would be behind f. Two
// variables that hold one tensor, but did not in the trace, both hold it: so it is not
// taken.

// donor is whose memory is written over.
type donor struct {
	program.Donation
	vars []int // variables that hold the tensor, all of which are set
	leaf int   // or the leaf whose gradient it is; -1
	free bool  // f frees it; else the variable does
}

// donations lists old values of variables and gradients with the new ones that may lie
// in their memory.
func (p *plan) donations() []*donor {
	var list []*donor
	add := func(from, out int, d *donor) {
		r := &p.prog.Results[out]
		if r.View.Offset != 0 || !r.View.Contiguous() {
			return
		}
		d.Donation = program.Donation{From: from, To: r.Value}
		if !slices.ContainsFunc(list, func(o *donor) bool { return o.Donation == d.Donation }) {
			list = append(list, d)
		}
	}
	for i := range p.vars {
		v := &p.vars[i]
		if v.out < 0 || v.value < 0 {
			continue
		}
		d := &donor{leaf: -1, free: v.free}
		for k := range p.vars {
			if p.vars[k].value == v.value {
				d.vars = append(d.vars, k)
			}
		}
		_, spares := v.holder.(program.Spare)
		if v.free || spares && len(d.vars) == 1 && !slices.ContainsFunc(p.leaves, func(l leafVariable) bool { return l.value == v.value }) {
			add(v.value, v.out, d)
		}
	}
	for i := range p.leaves {
		if l := &p.leaves[i]; l.out >= 0 && l.value >= 0 && l.free {
			add(l.value, l.out, &donor{leaf: i, free: true})
		}
	}
	return list
}

// prepare makes what runs the program, on one device or on several.
func (p *plan) prepare(several, recompute bool) {
	wanted := p.donations()
	list := make([]program.Donation, len(wanted))
	for i, d := range wanted {
		list[i] = d.Donation
	}
	if several {
		p.body, p.relay = p.prog, newRelay(p.prog, list, recompute)
		p.exec = p.relay
	} else {
		p.body, p.again = lower(p.prog, p.place.backend, recompute)
		p.exec = program.NewExecutor(p.body, list, p.place.backend, p.place.pool)
	}
	for _, d := range wanted {
		if slices.Contains(p.exec.Donated(), d.Donation) {
			p.donors = append(p.donors, d)
		}
	}
	p.offered = make([]bool, len(p.prog.Values))
}

// close frees what a plan that is not used any more holds on its device.
func (p *plan) close() {
	if p.exec != nil {
		p.exec.Close()
	}
}

// tensor returns what the donor holds now.
func (d *donor) tensor(p *plan) *Tensor {
	if d.leaf >= 0 {
		return p.leaves[d.leaf].grad
	}
	return p.vars[d.vars[0]].now
}

// ready reports whether the present tensor can be written over, as far as it can tell.
func (d *donor) ready(p *plan) bool {
	t := d.tensor(p)
	owner := t.owner
	for _, i := range d.vars {
		owner = owner || p.vars[i].now.owner
	}
	return owner && t.replaceable(t.place)
}

// offer binds the memory that may be written over. Variables that hold the same tensor
// are not bound again.
func (p *plan) offer() {
	if !p.exec.Donates() {
		return
	}
	for _, d := range p.donors {
		if !d.ready(p) {
			continue
		}
		p.bind(d.From, d.tensor(p))
		b := &p.bindings[len(p.bindings)-1]
		b.Offered = true
		if !d.free {
			b.Spare = p.vars[d.vars[0]].holder.(program.Spare)
		}
		p.offered[d.From] = true
	}
}

// unoffer ends a run.
func (p *plan) unoffer() {
	for _, d := range p.donors {
		p.offered[d.From] = false
	}
}
