package nn

import (
	"maps"
	"slices"
	"strings"

	"github.com/locusml/locus"
)

// counted is a layer with state that is not a tensor: what it draws from.
type counted interface {
	counters() map[string]uint64
	setCounters(map[string]uint64)
}

// Counters returns the part of a network's state that is not tensors, by name: the
// keys of dropout layers and how often they were used. Saved with the tensors,
// it lets a run go on with the same masks. Replicas have counters of their own.
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

// SetCounters restores what [Counters] returned. If the names are not those of the
// network, it changes nothing and returns an error that lists them all.
func SetCounters(m any, counters map[string]uint64) error {
	have := Counters(m)
	var wrong []string
	for _, n := range slices.Sorted(maps.Keys(have)) {
		if _, ok := counters[n]; !ok {
			wrong = append(wrong, n+" is missing")
		}
	}
	for _, n := range slices.Sorted(maps.Keys(counters)) {
		if _, ok := have[n]; !ok {
			wrong = append(wrong, n+" is unexpected")
		}
	}
	if len(wrong) > 0 {
		return &locus.Error{Kind: locus.ErrArgument, Op: "nn.SetCounters", Msg: "the counters are those of another network: " + strings.Join(wrong, ", ")}
	}
	eachLayer(m, func(path string, layer any) {
		if c, ok := layer.(counted); ok {
			own := c.counters()
			for k := range own {
				own[k] = counters[join(path, k)]
			}
			c.setCounters(own)
		}
	})
	return nil
}
