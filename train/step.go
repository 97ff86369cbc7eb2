package train

import (
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/guard"
)

// A step, whatever the options: every device computes the gradients of its part of
// the batch; they are summed on the first device, where they wait until there are
// enough of them; the first device updates its parameters; the others copy its
// state. One device, one batch per step and full precision are the cases in which
// parts of this have nothing to do.

// step trains on one batch, which it frees.
func (r *run) step(b *data.Batch, lr float64) error {
	defer b.Free()
	parts := split(b, len(r.replicas))
	scopes := make([]*locus.Scope, len(parts))
	for i := range parts {
		scopes[i] = locus.NewScope()
		defer scopes[i].Close()
	}
	r.copyState() // what a callback has changed
	trained := r.trained()
	grads := make([][]*locus.Tensor, len(parts))
	err := each(len(parts), func(i int) error {
		p := parts[i]
		if p.size == 0 {
			return nil
		}
		fields, err := r.set.prepare(scopes[i], r.devices[i], i, Batch{Stage: Training, Epoch: b.Epoch, Index: b.Index, Fields: p.fields})
		if err == nil {
			grads[i] = r.replicas[i].backward(scopes[i], part{fields, p.size}, b.Size, trained, r.scaler)
		}
		return err
	})
	if err != nil {
		return err
	}
	return guard.Call(func() error {
		r.collect(sum(grads, r.devices[0]))
		if r.pending == r.set.accumulate {
			r.update(lr)
		}
		return nil
	})
}

// each runs f for every i < n, at the same time if there are several, and returns
// the first error. A panic, or the end of f's goroutine, is an error.
func each(n int, f func(i int) error) error {
	if n == 1 {
		return guard.Call(func() error { return f(0) })
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			guard.Go(func() error { return f(i) }, func(err error) { errs[i] = err })
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// trained lists the positions of the parameters that get a gradient at present: a
// callback may freeze some.
func (r *run) trained() []int {
	var at []int
	for i, e := range r.replicas[0].params {
		if !e.Frozen() {
			at = append(at, i)
		}
	}
	return at
}

// collect adds the gradients of a batch, nil for what was frozen, to those that
// wait for the step. They outlive their scopes.
func (r *run) collect(grads []*locus.Tensor) {
	r.pending++
	if r.grads == nil {
		r.grads = make([]*locus.Tensor, len(grads))
	}
	for i, g := range grads {
		old := r.grads[i]
		switch {
		case g == nil:
			continue
		case old != nil:
			g = old.Add(g)
			old.Free()
		}
		if r.set.accumulate > 1 {
			if s := g.Scope(); s != nil {
				s.Keep(g)
			}
		}
		r.grads[i] = g
	}
}

// update takes a step on the first device with the mean of the gradients that
// wait, and gives the other devices its result.
func (r *run) update(lr float64) {
	locus.Scoped(func(sc *locus.Scope) {
		grads := make([]*locus.Tensor, len(r.grads))
		any := false
		for i, g := range r.grads {
			if g == nil {
				continue
			}
			any = true
			grads[i] = sc.Use(g)
			if r.pending > 1 {
				grads[i] = grads[i].Mul(1 / float64(r.pending))
			}
		}
		var ok *locus.Tensor
		if r.scaler != nil && any {
			grads, ok = r.scaler.Unscale(grads)
		}
		if r.set.clip > 0 && any {
			grads, _ = locus.ClipGlobalNorm(grads, r.set.clip)
		}
		r.opt.SetLR(lr)
		r.opt.StepIf(ok, grads)
		if ok != nil {
			r.scaler.Update(ok)
		}
	})
	r.dropGrads()
	r.report.Steps = r.opt.Steps()
	if r.average != nil {
		r.average.Update()
	}
	r.copyState()
}

// flush takes a last step with the gradients that wait at the end of an epoch, and
// reports whether there were any.
func (r *run) flush(lr float64) (stepped bool, err error) {
	if r.pending == 0 {
		return false, nil
	}
	return true, guard.Call(func() error { r.update(lr); return nil })
}

// dropGrads forgets the gradients that wait.
func (r *run) dropGrads() {
	freeAll(r.grads)
	r.grads, r.pending = nil, 0
}

// copyState gives the other devices the first one's parameters and buffers.
func (r *run) copyState() {
	for _, p := range r.replicas[1:] {
		p.copyFrom(r.replicas[0])
	}
}

// sum adds the gradients of all devices up on device d, always in the
// same order.
func sum(grads [][]*locus.Tensor, d locus.Device) []*locus.Tensor {
	total := make([]*locus.Tensor, len(grads[0]))
	for _, part := range grads {
		for i, g := range part {
			switch {
			case g == nil:
			case total[i] == nil:
				total[i] = g.To(d)
			default:
				total[i] = total[i].Add(g.To(d))
			}
		}
	}
	return total
}

// part is one device's share of a batch.
type part struct {
	fields []*locus.Tensor // views of the batch
	size   int
}

// split cuts a batch into parts whose sizes differ by at most one; of a batch that
// is smaller than the number of devices the last ones get nothing.
func split(b *data.Batch, n int) []part {
	if n == 1 {
		return []part{{b.Fields, b.Size}}
	}
	parts := make([]part, n)
	for _, f := range b.Fields {
		for i, c := range f.Chunk(n, 0) {
			parts[i].size = c.Dim(0)
			parts[i].fields = append(parts[i].fields, c)
		}
	}
	return parts
}

// place returns the fields of a batch, which stay as they are, on a device in a
// scope. From the CPU a GPU fetches them by itself out of page-locked memory.
func place(s *locus.Scope, fields []*locus.Tensor, d locus.Device) []*locus.Tensor {
	out := make([]*locus.Tensor, len(fields))
	for i, f := range fields {
		x := s.Use(f)
		if d.IsGPU() && !x.Device().IsGPU() {
			x = x.Pin()
		}
		out[i] = x.To(d)
	}
	return out
}

func freeAll(ts []*locus.Tensor) {
	for _, t := range ts {
		if t != nil {
			t.Free()
		}
	}
}
