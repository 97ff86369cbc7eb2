package train

import (
	"errors"
	"slices"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/nn"
)

// SyncBatchNorm makes batch normalization use the statistics of the whole batch, over all
// devices and ranks, as one device would: see nn.SyncBatchNorm. Each such layer then waits
// for the others in the forward and in the backward pass. Without it a layer uses the
// statistics of its device's part. If a small batch leaves a device without a part, the device
// computes an example that does not count. On one device it changes nothing.
func SyncBatchNorm() Option { return Option{func(s *settings) { s.syncNorm = true }} }

// syncNorms connects the batch normalization layers of all replicas.
func (r *run) syncNorms() error {
	_, ranks := r.ranks.of()
	places := ranks * len(r.replicas)
	if !r.set.syncNorm || places == 1 {
		return nil
	}
	if len(r.replicas) > 1 {
		groups, err := collective.Local(r.devices)
		if err != nil {
			return err
		}
		r.locals = groups
	}
	for i, p := range r.replicas {
		p.mates = &mates{first: i == 0, ranks: r.ranks}
		if r.locals != nil {
			p.mates.local = r.locals[i]
		}
		nn.SyncBatchNorm(p.model, nn.Peers(p.mates))
		p.synced = true
	}
	return nil
}

// unsync takes the layers apart again.
func (r *run) unsync() {
	for _, p := range r.replicas {
		if p.synced {
			nn.SyncBatchNorm(p.model, nil)
		}
	}
	for _, g := range slices.Concat(r.locals, r.mirrors) {
		g.Close()
	}
}

// meeting returns f, which computes a replica's part of a step, as a function whose failure
// ends the other replicas' too where these would wait for it, and cause, which returns the
// first failure that is not only the news of another one.
func (r *run) meeting(f func(i int) error) (g func(i int) error, cause func() error) {
	if len(r.replicas) == 1 {
		return f, func() error { return nil }
	}
	var mu sync.Mutex
	var first error
	return func(i int) error {
			err := guard.ErrExit // where f ends its goroutine
			defer func() {
				if err == nil {
					return
				}
				mu.Lock()
				if first == nil || errors.Is(first, collective.ErrRank) && !errors.Is(err, collective.ErrRank) {
					first = err // one that was told of a failure may return before the one that failed
				}
				mu.Unlock()
				for _, groups := range [][]*collective.Group{r.locals, r.mirrors} {
					if groups != nil {
						groups[i].Abort(err)
					}
				}
			}()
			err = guard.Call(func() error { return f(i) })
			return err
		}, func() error {
			mu.Lock()
			defer mu.Unlock()
			return first
		}
}

// mates are the other replicas of the program and those of other ranks, with which the first
// replica of each rank is in touch.
type mates struct {
	local *collective.Group // nil without
	first bool
	ranks *ranks // nil without
	idle  bool   // what the replica passes in does not count
}

// Sum returns the sum of all replicas' x.
func (m *mates) Sum(x *locus.Tensor) *locus.Tensor {
	return m.meet(x, x.Shape(), collective.Peers.Sum)
}

// Gather returns all replicas' x, rank by rank and device by device.
func (m *mates) Gather(x *locus.Tensor) *locus.Tensor {
	if m.local == nil || m.ranks == nil {
		return m.meet(x, nil, collective.Peers.Gather)
	}
	ranks, devices := m.ranks.size, m.local.Size()
	all := m.meet(x, append([]int{ranks, devices}, x.Shape()...), collective.Peers.Gather)
	defer all.Free()
	return all.Reshape(append([]int{ranks * devices}, x.Shape()...)...).Copy()
}

// meet lets a collective happen among the devices of the program, then among the ranks, and
// copies the result to all devices, which has the given shape where there are both.
func (m *mates) meet(x *locus.Tensor, shape []int, do func(p collective.Peers, x *locus.Tensor) *locus.Tensor) *locus.Tensor {
	if m.idle {
		x = x.Detach().ZerosLike()
		defer x.Free()
	}
	switch ctx := m.ranks.context(); {
	case m.local == nil:
		return do(m.ranks.g.Peers(ctx), x)
	case m.ranks == nil:
		return do(m.local.Peers(ctx), x)
	default:
		here := do(m.local.Peers(ctx), x)
		defer here.Free()
		var all *locus.Tensor
		if m.first {
			all = do(m.ranks.g.Peers(ctx), here)
		} else {
			all = x.Device().As(x.DType()).Zeros(shape...) // the first device's arrives in its place
		}
		defer all.Free()
		out, err := m.local.Broadcast(ctx, all, 0).Wait()
		if err != nil {
			panic(err)
		}
		return out
	}
}

// shadow computes a replica whose part of a batch is empty, because the others wait for it in
// the middle of the step: with the first example of the data, of which nothing counts, neither
// in statistics nor in gradients or metrics.
func (r *run) shadow(p *replica, trained []int, b Batch) error {
	var err error
	if b.Fields, err = r.data.Train.Batch([]int{0}, locus.NewKey(r.set.seed)); err != nil {
		return err
	}
	defer freeAll(b.Fields)
	s := locus.NewScope()
	defer s.Close()
	b.Size = 1
	args, err := r.set.prepare(s, p.device, b)
	if err != nil {
		return err
	}
	p.mates.idle = true
	defer func() { p.mates.idle = false }()
	model, used := p.lower(s, args)
	loss, _, _ := trainingStep(model, used, nil)
	if len(trained) == 0 {
		return nil
	}
	leaves := make([]*locus.Tensor, len(trained))
	for k, i := range trained {
		leaves[k] = p.params[i].Value()
	}
	freeAll(locus.Grad([]*locus.Tensor{loss.Mul(0)}, leaves, locus.FreeGraph))
	return nil
}
