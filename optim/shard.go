package optim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/trace"
)

// share is the part of the parameters that one of several ranks updates.
type share struct {
	rank, ranks int
	owner       []int // of each parameter
}

// Shard makes o update, and keep state for, only one rank's share of its parameters. All ranks
// hold the whole network: sharded optimizer state, stage 1 of ZeRO (Rajbhandari et al., 2020).
// A step leaves the other parameters as they are, whatever their gradients; the program must
// fetch their new values from the ranks that own them, see [Optimizer.Owner]. Shares are of
// whole parameters and of about the same size. The update of a parameter is the same, to the
// bit, as without sharding.
//
// All parameters must have values. State of other ranks' parameters is freed;
// [Optimizer.State] returns the rank's own, and [Optimizer.SetState] takes the state of all
// and keeps the rank's own. One rank of one is the whole. It returns o.
func (o *Optimizer) Shard(rank, ranks int) *Optimizer {
	const op = "optim.Shard"
	gate.Check(op, gate.Count("the number of ranks", ranks, 1, gate.MaxWorkers), gate.Count("the rank", rank, 0, max(ranks-1, 0)))
	if t := trace.Current(); t != nil {
		t.Refuse("an optimizer is sharded inside the function: do it before")
	}
	sizes := make([]int, len(o.ready().params))
	for i, e := range o.params {
		v := e.Value()
		if v == nil {
			fail(locus.ErrArgument, op, e.Name+" has no value yet", "run Forward once first")
		}
		sizes[i] = v.Bytes()
	}
	o.share = &share{rank, ranks, shareOut(sizes, ranks)}
	for i := range o.params {
		if o.owns(i) {
			continue
		}
		for k, t := range o.slots[i] {
			if t != nil {
				t.Free()
				o.slots[i][k] = nil
			}
		}
	}
	if ranks == 1 {
		o.share = nil
	}
	return o
}

// shareOut returns who owns each of several things, so that all own about as much: from the
// largest on, each goes to who has least.
func shareOut(sizes []int, owners int) []int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	owner, load := make([]int, len(sizes)), make([]int, owners)
	for _, i := range order {
		least := 0
		for r := range load {
			if load[r] < load[least] {
				least = r
			}
		}
		owner[i] = least
		load[least] += sizes[i]
	}
	return owner
}

// Owner returns the rank that updates parameter i of [Optimizer.Params]: 0 unless o is
// sharded.
func (o *Optimizer) Owner(i int) int {
	if o.ready(); i < 0 || i >= len(o.params) {
		fail(locus.ErrIndex, "optim.Owner", fmt.Sprintf("parameter %d does not exist; there are %d", i, len(o.params)), "")
	}
	if o.share == nil {
		return 0
	}
	return o.share.owner[i]
}

// owns reports whether o updates parameter i.
func (o *Optimizer) owns(i int) bool { return o.share == nil || o.share.owner[i] == o.share.rank }

// shareKey is the key under which an optimizer's share is watched.
type shareKey struct{ o *Optimizer }

// watchShare makes a trace depend on the share.
func (o *Optimizer) watchShare() {
	trace.Watch(shareKey{o}, "the share of a sharded optimizer", func() any {
		if o.share == nil {
			return [2]int{0, 1}
		}
		return [2]int{o.share.rank, o.share.ranks}
	})
}
