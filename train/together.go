package train

import (
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/trace"
	"github.com/locusml/locus/nn"
)

// A step of several devices and ranks as one program per device. Each computes the gradients
// of its part. Their sums are made on the first device of each rank, bucket by bucket while
// backward goes on, and from there over the ranks. The first device takes the step and sends
// the others what it has changed.

// meet makes the group in which the devices of the program exchange gradients and state.
func (r *run) meet() (err error) {
	if len(r.replicas) > 1 {
		r.mirrors, err = collective.Local(r.devices)
	}
	return err
}

// asOne reports whether the step that ends with batch b, of which these are the parts, can be
// taken so, and returns the gradients that wait for it, if any: not before the order of the
// gradients is known, nor where a device or rank has no part of the batch.
func (r *run) asOne(b *data.Batch, parts []part, trained []int) (waiting []*locus.Tensor, ok bool) {
	_, ranks := r.ranks.of()
	if ranks == 1 && len(parts) == 1 || r.pending+1 != r.set.accumulate || b.Whole < ranks || !r.known(trained) {
		return nil, false
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.size == 0 }) {
		return nil, false
	}
	if r.set.accumulate == 1 {
		return nil, r.grads == nil
	}
	waiting = r.sumsOf(trained)
	return waiting, waiting != nil
}

// together takes a step by a batch, and by the gradients that wait, if any.
func (r *run) together(b *data.Batch, parts []part, lr float64, waiting []*locus.Tensor) error {
	r.opt.SetLR(lr)
	scales := make([]*locus.Tensor, len(parts)) // of the other devices: the first one's changes meanwhile
	if r.scaler != nil {
		for i, p := range r.replicas[1:] {
			scales[1+i] = r.scaler.State()["scale"].CopyTo(p.device)
		}
	}
	defer freeAll(scales)
	compute, cause := r.meeting(func(i int) error {
		p := r.replicas[i]
		p.size, p.batch = parts[i].size, b.Whole
		if !r.apart {
			p.see(b.First+parts[i].first, p.size)
		}
		s := locus.NewScope()
		defer s.Close()
		args, err := r.set.prepare(s, p.device, Batch{Stage: Training, Epoch: b.Epoch, Index: b.Index, First: b.First + parts[i].first, Size: p.size, Whole: b.Whole, Fields: parts[i].fields})
		if err != nil {
			return err
		}
		switch {
		case i == 0:
			args = slices.Concat(args, waiting)
		case scales[i] != nil:
			args = append(slices.Clip(args), scales[i])
		}
		p.count.after(p.whole.call(args...))
		return nil
	})
	err := each(len(parts), compute)
	if first := cause(); first != nil {
		err = first
	}
	if err != nil {
		return err
	}
	return guard.Call(func() error {
		r.dropGrads()
		trained := r.replicas[0].trained()
		r.report.Steps = r.opt.Steps()
		if !r.sharded() { // exchange has sent the others everything
			for _, p := range r.replicas[1:] {
				p.adopt(r.replicas[0], r.given(trained))
			}
			return nil
		}
		if err := r.spread(trained); err != nil {
			return err
		}
		r.copyState()
		return nil
	})
}

// oneOf is the part of a step that replica i takes, in scope sc: args are its part of a
// batch, and behind it the gradients that wait, for the first replica of a step by several
// batches, or the scale of the loss, for the others.
func (r *run) oneOf(i int, sc *locus.Scope, args []*locus.Tensor) (seen []*locus.Tensor) {
	p := r.replicas[i]
	trained := p.trained()
	share := p.share()
	sums := r.sumsFor(i, trained, share)
	if i > 0 {
		var scale *locus.Tensor
		if r.scaler != nil {
			args, scale = args[:len(args)-1], args[len(args)-1]
		}
		_, seen = p.backward(sc, args, trained, nil, scale, sums.put)
		if _, _, err := sums.wait(1); err != nil {
			panic(err)
		}
		r.exchange(i, trained)
		return seen
	}
	put := sums.put
	if r.set.accumulate > 1 {
		var old []*locus.Tensor
		args, old = args[:len(args)-len(trained)], args[len(args)-len(trained):]
		if r.mirrors != nil { // they are sums over the devices
			for _, t := range old {
				sums.old = append(sums.old, sc.Use(t))
			}
			defer freeAll(old)
		} else {
			sums.factor, put = 1, func(k int, g *locus.Tensor) {
				if share != 1 {
					g = g.Mul(share)
				}
				sums.put(k, sc.Use(old[k]).Add(g))
				old[k].Free()
				g.Free()
			}
		}
	}
	_, seen = p.backward(sc, args, trained, r.scaler, nil, r.noting(trained, put))
	if err := r.shareBuffers(); err != nil {
		panic(err)
	}
	grads, results, err := sums.wait(1 / float64(r.set.accumulate))
	if err != nil {
		panic(err)
	}
	r.advance(trained, grads)
	freeAll(results)
	r.exchange(0, trained)
	return seen
}

// sumsFor returns the buckets of replica i for gradients at these positions, times factor.
func (r *run) sumsFor(i int, at []int, factor float64) *buckets {
	if r.mirrors == nil {
		return r.sumOverRanks(at, factor)
	}
	l, err := r.layout(at)
	if err != nil {
		panic(err)
	}
	ctx := r.ranks.context()
	b := newBuckets(l, len(at), factor, func(flat *locus.Tensor) *collective.Pending {
		return r.mirrors[i].Reduce(ctx, flat, collective.Sum, 0)
	})
	if r.ranks != nil && i == 0 {
		b.then = func(sum *locus.Tensor) *collective.Pending { return r.ranks.g.AllReduce(ctx, sum, collective.Sum) }
	}
	return b
}

// given lists what the first device sends the others after a step, as positions in the
// network's state: the parameters that are trained, and buffers such as running statistics.
func (r *run) given(trained []int) []int {
	names := make(map[string]bool, len(trained))
	for _, i := range trained {
		names[r.replicas[0].params[i].Name] = true
	}
	var at []int
	for k, e := range r.replicas[0].state {
		if e.Kind == nn.Kept || names[e.Name] {
			at = append(at, k)
		}
	}
	return at
}

// exchange is replica i's part in sending the others what the first one has changed. Where
// the state of an optimizer is sharded it is too early for that.
func (r *run) exchange(i int, trained []int) {
	if r.mirrors == nil || r.sharded() {
		return
	}
	p := r.replicas[i]
	at := r.given(trained)
	values := make([]*locus.Tensor, len(at))
	for n, k := range at {
		values[n] = p.state[k].Value()
	}
	views, results, err := together(values, func(flat *locus.Tensor) *collective.Pending {
		return r.mirrors[i].Broadcast(r.ranks.context(), flat, 0)
	})
	if err != nil {
		panic(err)
	}
	if i > 0 {
		locus.NoGrad(func() {
			for n, k := range at {
				c := views[n].Copy()
				if p.state[k].Set(c); trace.Current() == nil {
					p.keep(k, c)
				}
			}
		})
	}
	freeAll(results)
}

// keep notes that a replica has made c, its copy of the first one's tensor k, and frees the
// one before.
func (r *replica) keep(k int, c *locus.Tensor) {
	if old := r.own[k]; old != nil {
		old.Free()
	}
	r.own[k] = c
}

// adopt notes that the replica has what the first one has at these positions.
func (r *replica) adopt(first *replica, at []int) {
	for _, k := range at {
		r.from[k] = first.state[k].Value()
		if old := r.own[k]; old != nil && (old.Freed() || !old.SharesMemory(r.state[k].Value())) {
			r.keep(k, nil) // a program has set it
		}
	}
}
