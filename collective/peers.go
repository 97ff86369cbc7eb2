package collective

import (
	"context"

	"github.com/locusml/locus"
)

// Peers are the ranks of a group, for layers that compute over all replicas of a
// network: see nn.SyncBatchNorm. The methods wait for the other ranks and panic where a
// collective fails.
type Peers struct {
	g   *Group
	ctx context.Context
}

// Peers returns the group for layers that compute over all ranks. When ctx ends, the
// group ends.
//
//	nn.SyncBatchNorm(net, g.Peers(ctx))
func (g *Group) Peers(ctx context.Context) Peers {
	g.made("Peers")
	return Peers{g, ctx}
}

// Sum returns the sum of all ranks' x.
func (p Peers) Sum(x *locus.Tensor) *locus.Tensor { return p.wait(p.g.AllReduce(p.ctx, x, Sum)) }

// Gather returns all ranks' x along a new first axis, in the order of the ranks.
func (p Peers) Gather(x *locus.Tensor) *locus.Tensor {
	row := x
	if x != nil {
		row = x.Detach().Reshape(append([]int{1}, x.Shape()...)...)
	}
	return p.wait(p.g.AllGather(p.ctx, row))
}

func (p Peers) wait(pending *Pending) *locus.Tensor {
	t, err := pending.Wait()
	if err != nil {
		panic(err)
	}
	return t
}
