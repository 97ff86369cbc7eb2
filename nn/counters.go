package nn

import (
	"fmt"

	"github.com/locusml/locus"
)

// counted is a layer with state that is not a tensor: what it draws from.
type counted interface {
	counters() map[string]uint64
	setCounters(map[string]uint64)
}

// Counters gives the part of a network's state that is not tensors, by name: the
// keys of dropout layers and how often they were used. Saved beside the tensors,
// it lets a run go on with the same masks.
func Counters(m any) map[string]uint64 {
	out := map[string]uint64{}
	eachLayer(m, func(path string, layer any) {
		if c, ok := layer.(counted); ok {
			for k, v := range c.counters() {
				out[join(path, k)] = v
			}
		}
	})
	return out
}

// SetCounters puts back what Counters gave.
func SetCounters(m any, counters map[string]uint64) error {
	var missing error
	eachLayer(m, func(path string, layer any) {
		c, ok := layer.(counted)
		if !ok {
			return
		}
		own := c.counters()
		for k := range own {
			v, ok := counters[join(path, k)]
			if !ok {
				missing = fmt.Errorf("nn: there is no counter %q: %w", join(path, k), locus.ErrArgument)
				return
			}
			own[k] = v
		}
		c.setCounters(own)
	})
	return missing
}
