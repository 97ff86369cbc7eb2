package train

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/agree"
	"github.com/locusml/locus/nn"
)

// ownState is the part of a run's state that each rank has for itself, by device.
type ownState struct {
	counters []map[string]uint64
	weights  []map[string]float64 // of the epoch's metrics; what follows is of the middle of an epoch only
	sums     []map[string]*locus.Tensor
	counts   []map[string]*locus.Tensor // of Measure
	grads    map[string]*locus.Tensor   // that wait for a step
}

// ownState returns the rank's own state.
func (r *run) ownState(middle bool) (s ownState) {
	for _, p := range r.replicas {
		s.counters = append(s.counters, nn.Counters(p.model))
		if !middle {
			continue
		}
		s.weights, s.sums = append(s.weights, p.meter.weights), append(s.sums, p.meter.measured())
		var counts map[string]*locus.Tensor
		if p.count != nil {
			counts = p.count.State()
		}
		s.counts = append(s.counts, counts)
	}
	s.grads = map[string]*locus.Tensor{}
	for i, g := range r.grads {
		if g != nil {
			s.grads[r.replicas[0].params[i].Name] = g
		}
	}
	return s
}

// wire is an ownState as it is sent.
type wire struct {
	Counters     []map[string]uint64
	Weights      []map[string]float64
	Sums, Counts [][]byte
	Grads        []byte
}

// GobEncode writes the state for the other ranks.
func (s ownState) GobEncode() (_ []byte, err error) {
	w := wire{Counters: s.counters, Weights: s.weights}
	add := func(l *[][]byte, ts map[string]*locus.Tensor) {
		b, e := encode(ts)
		if *l = append(*l, b); e != nil {
			err = e
		}
	}
	for i := range s.weights {
		add(&w.Sums, s.sums[i])
		add(&w.Counts, s.counts[i])
	}
	var grads [][]byte
	add(&grads, s.grads)
	w.Grads = grads[0]
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = gob.NewEncoder(&b).Encode(w)
	return b.Bytes(), err
}

// GobDecode reads what GobEncode wrote; tensors are on the CPU.
func (s *ownState) GobDecode(b []byte) (err error) {
	var w wire
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&w); err != nil {
		return err
	}
	*s = ownState{counters: w.Counters, weights: w.Weights}
	read := func(b []byte) map[string]*locus.Tensor {
		ts, e := decode(b)
		if e != nil {
			err = e
		}
		return ts
	}
	for i := range w.Sums {
		s.sums, s.counts = append(s.sums, read(w.Sums[i])), append(s.counts, read(w.Counts[i]))
	}
	s.grads = read(w.Grads)
	return err
}

// ownStates returns those of all ranks, in their order.
func (r *run) ownStates(middle bool) ([]ownState, error) {
	own := r.ownState(middle)
	if r.ranks == nil {
		return []ownState{own}, nil
	}
	return agree.All(r.ranks.ctx, r.ranks.g, own)
}

// addTo adds the ranks' own states to a checkpoint.
func addTo(state *saved, tensors map[string]*locus.Tensor, all []ownState) {
	if len(all) > 1 {
		state.Ranks = len(all)
	}
	i := 0
	for _, s := range all {
		state.Counters = append(state.Counters, s.counters...)
		state.Weights = append(state.Weights, s.weights...)
		for k := range s.weights {
			for name, t := range s.sums[k] {
				tensors[fmt.Sprint(meterPrefix, i+k, ".", name)] = t
			}
			for name, t := range s.counts[k] {
				tensors[fmt.Sprint(countPrefix, i+k, ".", name)] = t
			}
		}
		i += len(s.counters)
	}
	for name, g := range all[0].grads {
		if len(all) > 1 { // a row for each rank
			var rows []*locus.Tensor
			for _, s := range all {
				rows = append(rows, s.grads[name])
			}
			g = locus.Stack(0, rows...)
		}
		tensors[gradPrefix+name] = g
	}
}

// ownGrad returns the rank's own part of a gradient that waited for a step in a checkpoint of
// so many ranks. With another number of ranks now, the first gets the sum.
func (r *run) ownGrad(g *locus.Tensor, ranks int) (own *locus.Tensor) {
	rank, size := r.ranks.of()
	if ranks > 1 && (g.Rank() == 0 || g.Dim(0) != ranks) {
		return g // its shape is refused
	}
	locus.NoGrad(func() {
		switch {
		case ranks == 1 && rank == 0:
			own = g
			return
		case ranks == 1:
			own = g.ZerosLike()
		case ranks == size:
			own = g.Narrow(0, rank, rank+1).Reshape(g.Shape()[1:]...).Copy()
		case rank == 0:
			own = g.Sum(0)
		default:
			own = g.Narrow(0, 0, 1).Reshape(g.Shape()[1:]...).ZerosLike()
		}
		g.Free()
	})
	return own
}

// dropOthers forgets the sums of an epoch's metrics where they belong to another number of
// ranks or devices: the metrics are then those of the rest of the epoch.
func (r *run) dropOthers(s *saved) {
	if _, size := r.ranks.of(); max(s.Ranks, 1) != size || len(s.Counters) != size*len(r.replicas) {
		s.Weights = slices.Clip(s.Weights[:0])
	}
}
