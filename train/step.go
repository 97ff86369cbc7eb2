package train

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/trace"
)

// A step, whatever the options: every device computes the gradients of its part of
// the batch; they are summed on the first device, where they wait until there are
// enough of them; with several ranks they are summed over the ranks; the first device
// updates its parameters; the others copy its state. One device, one batch per step and full precision are the cases in which
// parts of this have nothing to do.
//
// What is compiled: with one device of one rank and one batch per step, all of it. With
// several devices or ranks, each device's part of a step that ends an update: see
// together.go. What is left, which are the batches before that, the first step, and batches of
// which a device or rank has no part, is the gradients of a part on its device, added to
// those that wait if there is one device, and the update; copies between devices are then
// made in between. Metrics that keep all examples are counted behind it.

// step trains on one batch, which it frees.
func (r *run) step(b *data.Batch, lr float64) error {
	defer b.Free()
	if len(r.replicas) == 1 && r.set.accumulate == 1 && r.ranks == nil {
		return guard.Call(func() error { return r.atOnce(b, lr) })
	}
	parts := split(b, len(r.replicas))
	r.copyState() // what a callback has changed
	trained := r.replicas[0].trained()
	if waiting, ok := r.asOne(b, parts, trained); ok {
		return r.together(b, parts, lr, waiting)
	}
	waiting := r.waiting(trained)
	grads := make([][]*locus.Tensor, len(parts)) // of the parameters that are trained
	compute, cause := r.meeting(func(i int) error {
		p := r.replicas[i]
		p.size = parts[i].size
		if p.size == 0 && p.synced {
			return r.shadow(p, trained, Batch{Stage: Training, Epoch: b.Epoch, Index: b.Index, Whole: b.Whole})
		}
		if p.size == 0 {
			return nil
		}
		p.batch = b.Whole
		if !r.apart {
			p.see(b.First+parts[i].first, p.size)
		}
		s := locus.NewScope()
		defer s.Close()
		args, err := r.set.prepare(s, p.device, Batch{Stage: Training, Epoch: b.Epoch, Index: b.Index, First: b.First + parts[i].first, Size: p.size, Whole: b.Whole, Fields: parts[i].fields})
		if err != nil {
			return err
		}
		var out []*locus.Tensor
		switch {
		case waiting != nil:
			out = p.more.call(slices.Concat(args, waiting)...)
		case r.scaler != nil && len(parts) > 1: // copied here, so that each device has a program of its own
			out = p.first.call(slices.Concat(args, []*locus.Tensor{s.Use(r.scaler.State()["scale"]).To(p.device)})...)
		default:
			out = p.first.call(args...)
		}
		grads[i] = out[:len(trained):len(trained)]
		p.count.after(out[len(trained):])
		return nil
	})
	err := each(len(parts), compute)
	if first := cause(); first != nil {
		err = first
	}
	if err == nil {
		err = r.catchUp(b.Whole)
	}
	if err != nil {
		return err
	}
	return guard.Call(func() error {
		switch r.pending++; {
		case waiting != nil && b.Size == 0:
		case waiting != nil:
			r.wait(trained, grads[0])
		case b.Size == 0:
			r.collect(trained, r.none(trained))
		default:
			r.collect(trained, sum(grads, len(trained), r.devices[0]))
		}
		if r.pending == r.set.accumulate {
			return r.update(lr, r.shareBuffers)
		}
		return r.shareBuffers()
	})
}

// atOnce is a step on one device by one batch.
func (r *run) atOnce(b *data.Batch, lr float64) error {
	p := r.replicas[0]
	p.size, p.batch = b.Size, b.Size
	args := b.Fields
	if !r.set.prepared(args, p.device) {
		s := locus.NewScope()
		defer s.Close()
		var err error
		if args, err = r.set.prepare(s, p.device, Batch{Stage: Training, Epoch: b.Epoch, Index: b.Index, Size: b.Size, Whole: b.Size, Fields: args}); err != nil {
			return err
		}
	}
	r.opt.SetLR(lr)
	p.count.after(p.whole.call(args...))
	r.report.Steps = r.opt.Steps()
	return nil
}

// compile makes the parts of a step.
func (r *run) compile() {
	for i, p := range r.replicas {
		p.whole = r.set.compile(&r.why, p.model, func(args ...*locus.Tensor) (seen []*locus.Tensor) {
			locus.Scoped(func(sc *locus.Scope) {
				if r.ranks != nil || len(r.replicas) > 1 {
					seen = r.oneOf(i, sc, args)
					return
				}
				trained := p.trained()
				var grads []*locus.Tensor
				grads, seen = p.backward(sc, args, trained, r.scaler, nil, nil)
				r.advance(trained, grads)
			})
			return seen
		})
		if i == 0 {
			// The gradients that wait are the last arguments.
			p.more = r.set.compile(&r.why, p.model, func(args ...*locus.Tensor) (out []*locus.Tensor) {
				locus.Scoped(func(sc *locus.Scope) {
					trained := p.trained()
					old := args[len(args)-len(trained):]
					sums, seen := r.gradients(p, sc, args[:len(args)-len(trained)], trained, nil)
					for k, g := range sums {
						sums[k] = sc.Use(old[k]).Add(g)
						old[k].Free()
					}
					own(sc, sums)
					out = append(sums, seen...)
				})
				return out
			})
			r.apply = r.set.compile(&r.why, p.model, func(args ...*locus.Tensor) []*locus.Tensor {
				trace.Watch(applied{r}, "the number of batches of a step, or which parameters are trained", func() any { return r.waits })
				locus.Scoped(func(sc *locus.Scope) {
					grads := make([]*locus.Tensor, len(args))
					for k, g := range args {
						grads[k] = sc.Use(g)
						if r.waits.batches > 1 {
							grads[k] = grads[k].Mul(1 / float64(r.waits.batches))
						}
					}
					r.advance(r.waits.at(), grads)
				})
				return nil
			})
		}
		// With several devices and a scaler, the scale is the last argument.
		p.first = r.set.compile(&r.why, p.model, func(args ...*locus.Tensor) (out []*locus.Tensor) {
			locus.Scoped(func(sc *locus.Scope) {
				trained := p.trained()
				var scale *locus.Tensor
				if r.scaler != nil && len(r.replicas) > 1 {
					args, scale = args[:len(args)-1], args[len(args)-1]
				}
				grads, seen := r.gradients(p, sc, args, trained, scale)
				own(sc, grads)
				out = append(grads, seen...)
			})
			return out
		})
	}
}

// applied is the key under which what an update depends on is watched.
type applied struct{ r *run }

// waits says which gradients an update is for: comparable, as a program's signature
// must be.
type waits struct {
	batches   int
	positions string // of the parameters, four bytes each
}

func (w waits) at() []int {
	at := make([]int, len(w.positions)/4)
	for k := range at {
		at[k] = int(binary.LittleEndian.Uint32([]byte(w.positions[4*k:])))
	}
	return at
}

// own takes gradients out of their scope, as tensors whose memory nothing else uses.
func own(sc *locus.Scope, grads []*locus.Tensor) {
	for k, g := range grads {
		if g.IsView() {
			g = g.Copy()
		}
		grads[k] = sc.Keep(g)
	}
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
func (r *replica) trained() []int {
	at := make([]int, 0, len(r.params))
	for i, e := range r.params {
		if !e.Frozen() {
			at = append(at, i)
		}
	}
	return at
}

// waiting returns the gradients that wait for the step, if the gradients of one more
// batch can be added to them where they are computed; else nil.
func (r *run) waiting(trained []int) []*locus.Tensor {
	if len(r.replicas) > 1 {
		return nil
	}
	return r.sumsOf(trained)
}

// sumsOf returns the gradients that wait for the step if they are of the parameters at these
// positions; else nil.
func (r *run) sumsOf(trained []int) []*locus.Tensor {
	if r.grads == nil || len(trained) == 0 {
		return nil
	}
	var l []*locus.Tensor
	for _, g := range r.grads {
		if g != nil {
			l = append(l, g)
		}
	}
	for _, i := range trained {
		if r.grads[i] == nil {
			return nil // it was frozen for the batches before
		}
	}
	if len(l) != len(trained) {
		return nil // one was frozen meanwhile
	}
	return l
}

// wait makes sums those that wait for the step.
func (r *run) wait(trained []int, sums []*locus.Tensor) {
	for k, i := range trained {
		r.grads[i] = sums[k]
	}
}

// collect adds the gradients of a batch, which are its own, to those that wait for the
// step.
func (r *run) collect(trained []int, grads []*locus.Tensor) {
	if r.grads == nil {
		r.grads = make([]*locus.Tensor, len(r.replicas[0].params))
	}
	for k, g := range grads {
		i := trained[k]
		if old := r.grads[i]; old != nil {
			r.grads[i] = old.Add(g)
			old.Free()
			g.Free()
			continue
		}
		r.grads[i] = g
	}
}

// update takes a step on the first device with the mean of the gradients that
// wait, summed over the ranks, and copies its result to the other devices. meanwhile is called
// while the sums are on their way, if there are ranks; it may be nil.
func (r *run) update(lr float64, meanwhile func() error) error {
	if err := r.reduce(meanwhile); err != nil {
		return err
	}
	var args []*locus.Tensor
	var at []int
	for i, g := range r.grads {
		if g != nil {
			args, at = append(args, g), append(at, i)
		}
	}
	if len(r.replicas) > 1 {
		if _, err := r.layout(at); err != nil { // for the next step
			return err
		}
	}
	if key := positionsOf(at); r.waits.batches != r.pending || r.waits.positions != key {
		r.waits = waits{r.pending, key}
	}
	r.opt.SetLR(lr)
	r.apply.call(args...)
	r.dropGrads()
	if err := r.spread(r.waits.at()); err != nil {
		return err
	}
	r.report.Steps = r.opt.Steps()
	r.copyState()
	return nil
}

// advance takes a step with the gradients of the parameters at the given positions.
func (r *run) advance(at []int, some []*locus.Tensor) {
	grads := make([]*locus.Tensor, len(r.replicas[0].params))
	for k, i := range at {
		grads[i] = some[k]
	}
	var ok *locus.Tensor
	if r.scaler != nil && len(at) > 0 {
		grads, ok = r.scaler.Unscale(grads)
	}
	if r.set.clip > 0 && len(at) > 0 {
		grads, _ = locus.ClipGlobalNorm(grads, r.set.clip)
	}
	r.opt.StepIf(ok, grads)
	if ok != nil {
		r.scaler.Update(ok)
	}
	if r.average != nil && !r.sharded() { // else when all values are there
		r.average.Update()
	}
}

// flush takes a last step with the gradients that wait at the end of an epoch, and
// reports whether there were any.
func (r *run) flush(lr float64) (stepped bool, err error) {
	if r.pending == 0 {
		return false, nil
	}
	return true, guard.Call(func() error { return r.update(lr, nil) })
}

// dropGrads forgets the gradients that wait.
func (r *run) dropGrads() {
	freeAll(r.grads)
	freeAll(r.reduced)
	r.grads, r.reduced, r.pending = nil, nil, 0
}

// copyState copies the first device's parameters and buffers to the others.
func (r *run) copyState() {
	for _, p := range r.replicas[1:] {
		p.copyFrom(r.replicas[0])
	}
}

// sum adds the gradients of all devices, n of each, up on device d, always in the same
// order, and frees them. Nothing else has a handle of the sums.
func sum(grads [][]*locus.Tensor, n int, d locus.Device) []*locus.Tensor {
	total := make([]*locus.Tensor, n)
	locus.Scoped(func(sc *locus.Scope) {
		for k := range total {
			var used []*locus.Tensor
			for _, part := range grads {
				if part != nil {
					used = append(used, part[k])
				}
			}
			if len(used) == 1 && used[0].Device() == d {
				total[k] = used[0]
				continue
			}
			was := used[0].DType()
			wide := was
			if was.Size() == 2 { // as collectives do it
				wide = locus.Float32
			}
			t := sc.Use(used[0]).To(d).Cast(wide)
			for _, g := range used[1:] {
				t = t.Add(sc.Use(g).To(d).Cast(wide))
			}
			total[k] = sc.Keep(t.Cast(was))
			freeAll(used)
		}
	})
	return total
}

// part is one device's share of a batch.
type part struct {
	fields []*locus.Tensor // views of the batch
	first  int             // the number of its first example
	size   int
}

// split returns the devices' parts of a batch, whose sizes differ by at most one; of a batch
// that is smaller than the number of devices the last ones get nothing.
func split(b *data.Batch, n int) []part {
	if b.Parts == nil { // one device, or an empty part of a rank
		return append([]part{{fields: b.Fields, size: b.Size}}, make([]part, n-1)...)
	}
	parts := make([]part, n)
	for i, p := range b.Parts {
		parts[i] = part{p.Fields, p.First, p.Size}
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
