//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/choices"
)

// What was timed for a convolution is stored by card, version of cuDNN and kind of call,
// so that the next process computes the same bits, and begins without timing.

// ownKernels is the choice of this package's kernels.
const ownKernels = "own"

// store returns where the choices for a device's convolutions are.
func (n *dnn) store(d *Device) *choices.Store {
	return choices.For(fmt.Sprintf("%s %d.%d", d.card.name, d.card.major, d.card.minor), fmt.Sprintf("cuDNN %d", n.lib.version))
}

// stored names a kind of call in the store.
func (k convKey) stored() string {
	return fmt.Sprintf("%s %+v %s tf32=%t varies=%t %v %v %v %v last=%t aligned=%t", k.id, k.attrs, k.dtype, k.tf32, k.varies, k.a, k.b, k.as, k.bs, k.last, k.aligned)
}

// name sets the name that each choice has in the store. cuDNN may have several plans of
// one engine, whose order its version decides.
func (p *convPlan) name() {
	seen := map[string]int{}
	for i := range p.choices {
		s := p.choices[i].String()
		p.choices[i].name = fmt.Sprintf("%s, %d", s, seen[s])
		seen[s]++
	}
}

// choose puts the choice first that was stored for calls of this kind, else the one
// that is fastest now, and stores it. What was chosen because memory was short is not
// stored.
func (n *dnn) choose(d *Device, c *backend.Call, p *convPlan, k convKey) error {
	store, key := n.store(d), k.stored()
	p.name()
	if name, ok := store.Get(key); ok && p.pick(name) {
		if len(p.choices) == 0 {
			return nil
		}
		if _, err := d.workspace(int(p.choices[0].memory)); !d.refused(err) {
			return err
		}
	}
	if d.capturing() {
		return errUntimed
	}
	all := slices.Clone(p.choices)
	if err := n.sort(d, c, p); err != nil || p.less {
		return err
	}
	now := p.chosen()
	if first := store.Put(key, now); first != now { // another process was faster
		p.choices = all
		if !p.pick(first) {
			p.pick(now)
		}
	}
	return nil
}

// pick puts the choice of that name first, and reports whether there is one.
func (p *convPlan) pick(name string) bool {
	if name == ownKernels {
		p.choices = p.choices[:0]
		return true
	}
	for i := range p.choices {
		if p.choices[i].name == name {
			p.choices[0], p.choices[i] = p.choices[i], p.choices[0]
			return true
		}
	}
	return false
}

// chosen returns the name of the present choice.
func (p *convPlan) chosen() string {
	if len(p.choices) == 0 {
		return ownKernels
	}
	return p.choices[0].name
}
