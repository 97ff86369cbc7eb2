package train

import (
	"maps"
	"slices"

	"github.com/locusml/locus/internal/agree"
	"github.com/locusml/locus/nn"
)

// Several devices draw what one would draw: their layers have the same keys, have drawn as
// often, and know which examples of the batch they see.

// see tells a replica's layers which part of a batch they see.
func (r *replica) see(first, size int) {
	if part := [2]int{first, size}; part != r.seen {
		r.seen = part
		nn.SetPart(r.model, first, size)
	}
}

// drawAs makes a replica draw as another one does.
func (r *replica) drawAs(other *replica) error {
	return nn.SetCounters(r.model, nn.Counters(other.model))
}

// catchUp lets replicas draw as the others do, also where their part of a batch of so many
// examples was empty, so that they drew nothing.
func (r *run) catchUp(whole int) error {
	if r.apart {
		return nil
	}
	first := r.replicas[0]
	empty := slices.ContainsFunc(r.replicas, func(p *replica) bool { return p.size == 0 })
	elsewhere := r.ranks != nil && whole < r.ranks.size // known to all
	if !empty && !elsewhere {
		return nil
	}
	own := nn.Counters(first.model)
	if len(own) == 0 {
		return nil
	}
	if elsewhere {
		all, err := agree.All(r.ranks.ctx, r.ranks.g, own)
		if err != nil {
			return err
		}
		if first.size == 0 {
			if err := nn.SetCounters(first.model, all[0]); err != nil {
				return err
			}
		}
	}
	for _, p := range r.replicas[1:] {
		if p.size == 0 {
			if err := p.drawAs(first); err != nil {
				return err
			}
		}
	}
	return nil
}

// drewApart reports whether the counters of a checkpoint are of an earlier version, in which
// each replica had keys, and each rank counts, of its own. Such a run goes on as it began.
func drewApart(counters []map[string]uint64) bool {
	const own = 1 << 40 // the distance of such counts; keys are further apart
	first := counters[0]
	for _, c := range counters[1:] {
		if !maps.EqualFunc(first, c, func(a, b uint64) bool { return max(a, b)-min(a, b) < own }) {
			return true
		}
	}
	return false
}
