package locus

import (
	"slices"

	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/program"
)

// What a program sets a variable to is written into the memory of what the variable
// held, where f frees that, or the variable would when it is set. The rules are those
// of an optimizer's step: see Tensor.replaceable and memory.Block.Take. Handles of the
// old value are handles of freed memory afterwards, as they would be behind f.

// spare is a variable that frees what it holds when it is set, unless somebody else may
// have a handle of it.
type spare interface{ Spare() bool }

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
		_, spares := v.holder.(spare)
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

// prepare makes what runs the program.
func (p *plan) prepare() {
	wanted := p.donations()
	list := make([]program.Donation, len(wanted))
	for i, d := range wanted {
		list[i] = d.Donation
	}
	p.exec = program.NewExecutor(p.prog, list, p.place.backend, p.place.pool)
	for _, d := range wanted {
		if slices.Contains(p.exec.Donated(), d.Donation) {
			p.donors = append(p.donors, d)
		}
	}
	p.over = make([]bool, len(p.prog.Values))
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
	return owner && t.replaceable(p.place) && (d.free || p.vars[d.vars[0]].holder.(spare).Spare())
}

// offer chooses the variables whose memory is taken, which are not bound before all
// others are.
func (p *plan) offer() {
	if !p.exec.Donates() {
		return
	}
	for _, d := range p.donors {
		if d.ready(p) {
			p.offers = append(p.offers, d)
			p.over[d.From] = true
		}
	}
}

// take takes over the memory of what was offered, where nobody uses it at this moment,
// and binds it. It reports false if two variables offer the same memory.
func (p *plan) take() bool {
	for i, d := range p.offers {
		p.over[d.From] = false
		t := d.tensor(p)
		if b, ok := t.block.Take(); ok {
			p.took = append(p.took, takenBlock{t.block, b})
			p.offers[len(p.took)-1] = d
			p.bindings = append(p.bindings, program.Binding{Value: d.From, Block: b, Taken: true})
			continue
		}
		if slices.ContainsFunc(p.took, func(x takenBlock) bool { return x.old == t.block }) {
			for _, d := range p.offers[i:] {
				p.over[d.From] = false
			}
			p.offers = p.offers[:len(p.took)]
			return false
		}
		p.bind(d.From, t)
	}
	p.offers = p.offers[:len(p.took)]
	return true
}

// keep notes what a run has written over what it took; the rest is given back.
func (p *plan) keep(blocks []*memory.Block) {
	left := p.took[:0]
	for i, t := range p.took {
		if blocks[p.offers[i].To] == t.new {
			p.over[p.offers[i].To] = true
		} else {
			left = append(left, t)
		}
	}
	clear(p.took[len(left):])
	p.took = left
	p.giveBack()
}

// giveBack undoes what take has done and keep has not confirmed.
func (p *plan) giveBack() {
	for _, t := range p.took {
		t.new.GiveBack(t.old)
	}
	clear(p.took)
	p.took = p.took[:0]
}

// forget ends a run.
func (p *plan) forget() {
	for _, d := range p.donors {
		p.over[d.From], p.over[d.To] = false, false
	}
	clear(p.offers)
	p.offers = p.offers[:0]
}
