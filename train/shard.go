package train

import (
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/agree"
)

// ShardOptimizer divides the optimizer's state among the ranks (stage 1 of ZeRO): each rank
// remembers, and updates, its share of the parameters, and fetches the others' new values
// after each step. So momentum and averages of squares take about 1/n of the memory on each of
// n ranks, for one more exchange of the parameters per step. Updates are the same to the bit.
// Checkpoints have the whole state, and may be resumed with it or without, and with another
// number of ranks. Without [Ranks], or with one, it changes nothing: the devices of one
// program have one state among them, on the first.
func ShardOptimizer() Option { return Option{func(s *settings) { s.shard = true }} }

// shard shares the optimizer's state out over the ranks.
func (r *run) shard() {
	if r.set.shard && r.ranks != nil {
		r.opt.Shard(r.ranks.rank, r.ranks.size)
		r.received = make([]*locus.Tensor, len(r.replicas[0].params))
	}
}

// sharded reports whether the optimizer's state is sharded.
func (r *run) sharded() bool { return r.received != nil }

// spread sends all ranks the new values of the parameters that were updated, from those that
// own them, one owner after the other so that little memory is needed at a time.
func (r *run) spread(updated []int) error {
	if !r.sharded() {
		return nil
	}
	params := r.replicas[0].params
	for owner := range r.ranks.size {
		var at []int
		var values []*locus.Tensor
		for _, i := range updated {
			if r.opt.Owner(i) == owner {
				at, values = append(at, i), append(values, params[i].Value())
			}
		}
		views, results, err := together(values, func(flat *locus.Tensor) *collective.Pending {
			return r.ranks.g.Broadcast(r.ranks.ctx, flat, owner)
		})
		if err != nil {
			return err
		}
		if owner != r.ranks.rank {
			locus.NoGrad(func() {
				for k, i := range at {
					old := r.received[i]
					r.received[i] = views[k].Copy()
					if params[i].Set(r.received[i]); old != nil {
						old.Free()
					}
				}
			})
		}
		freeAll(results)
	}
	if r.average != nil {
		r.average.Update()
	}
	return nil
}

// optimizerState returns the whole state of the optimizer, on the first rank; the others,
// which must call it too, send theirs and get nothing. What drop frees is needed no longer
// when the state was written.
func (r *run) optimizerState() (state map[string]*locus.Tensor, drop func(), err error) {
	drop = func() {}
	state = r.opt.State()
	if !r.sharded() {
		return state, drop, nil
	}
	type slot struct {
		Name  string
		Shape []int
		DType locus.DType
	}
	own := []slot{}
	for name, t := range state {
		own = append(own, slot{name, t.Shape(), t.DType()})
	}
	slices.SortFunc(own, func(a, b slot) int { return strings.Compare(a.Name, b.Name) })
	all, err := agree.All(r.ranks.ctx, r.ranks.g, own)
	if err != nil {
		return nil, drop, err
	}
	if r.ranks.rank > 0 {
		for _, s := range own {
			if _, err := r.ranks.g.Send(r.ranks.ctx, state[s.Name], 0).Wait(); err != nil {
				return nil, drop, err
			}
		}
		return nil, drop, nil
	}
	var fetched []*locus.Tensor
	drop = func() { freeAll(fetched) }
	for rank, slots := range all[1:] {
		for _, s := range slots {
			like := r.devices[0].As(s.DType).Zeros(s.Shape...)
			t, err := r.ranks.g.Recv(r.ranks.ctx, like, rank+1).Wait()
			like.Free()
			if err != nil {
				drop()
				return nil, func() {}, err
			}
			state[s.Name] = t.CopyTo(locus.CPU()) // the file is written from there anyway
			t.Free()
			fetched = append(fetched, state[s.Name])
		}
	}
	return state, drop, nil
}
