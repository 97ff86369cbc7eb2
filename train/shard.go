package train

import (
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// shard is one device's part in training: a replica of the model with its own
// metrics. The model itself is the first.
type shard struct {
	device locus.Device
	model  Model
	params []nn.Entry
	meter  *meter
	half   locus.DType // what the network is computed in; 0 for its own type

	copied []*locus.Tensor // values that came from the first device, which the next ones free
}

func newShard(t *Trainer, m Model, d locus.Device) *shard {
	return &shard{device: d, model: m, meter: newMeter(), half: t.precision}
}

// keep chooses the parameters that the optimizer updates, by name: it may be given
// fewer than there are.
func (s *shard) keep(chosen []nn.Entry) {
	byName := map[string]nn.Entry{}
	for _, e := range nn.Parameters(s.model) {
		byName[e.Name] = e
	}
	for _, e := range chosen {
		own, ok := byName[e.Name]
		if !ok {
			panic(&locus.Error{Kind: locus.ErrArgument, Op: "train", Msg: "the optimizer updates " + e.Name + ", which is not a parameter of the model",
				Fix: "give it entries of the list that ConfigureOptimizer gets"})
		}
		s.params = append(s.params, own)
	}
	s.copied = make([]*locus.Tensor, len(s.params))
}

// configure makes the model's optimizer.
func configure(t *Trainer, m Model) *optim.Optimizer {
	params := nn.Parameters(m)
	if c, ok := m.(OptimizerConfigurer); ok {
		if o := c.ConfigureOptimizer(params); o != nil {
			return o
		}
	}
	return optim.SGD(params, t.lr, optim.SGDOptions{})
}

// copyFrom gives a replica the values of the first device's parameters. So all
// replicas are equal to the bit, whatever the kinds of device.
func (s *shard) copyFrom(first *shard) {
	for i, e := range s.params {
		if e.Frozen() {
			continue
		}
		v := first.params[i].Value().Detach().To(s.device)
		e.Set(v)
		if old := s.copied[i]; old != nil {
			old.Free()
		}
		s.copied[i] = v
	}
}

// backward computes the gradients of a part of a batch, in scope sc, scaled by its
// share and by scale, unless that is nil, and counts its metrics.
func (s *shard) backward(sc *locus.Scope, fields []*locus.Tensor, size int, share float64, scale *locus.Tensor) []*locus.Tensor {
	fields = place(sc, fields, s.device)
	model, leaves := s.model, nn.Values(s.params)
	if s.half != 0 {
		model, fields = s.lowered(fields)
	}
	loss, metrics := trainingStep(model, fields)
	s.meter.add("loss", loss, size)
	for name, v := range metrics {
		s.meter.add(name, v, size)
	}
	if scale != nil {
		loss = loss.Mul(scale.To(s.device).Cast(loss.DType()))
	}
	var trained []*locus.Tensor
	var at []int
	for i, p := range s.params {
		if !p.Frozen() {
			trained, at = append(trained, leaves[i]), append(at, i)
		}
	}
	grads := make([]*locus.Tensor, len(leaves))
	for k, g := range locus.Grad([]*locus.Tensor{loss}, trained, locus.FreeGraph) {
		if share != 1 {
			g = g.Mul(share)
		}
		grads[at[k]] = g
	}
	return grads
}

// lowered gives the model and a batch in the lower precision. Gradients flow
// through the rounding to the parameters themselves.
func (s *shard) lowered(fields []*locus.Tensor) (Model, []*locus.Tensor) {
	tree := nn.Tree{}
	for name, v := range nn.Trainable(s.model) { // buffers are shared with the model
		tree[name] = v.Cast(s.half)
	}
	out := make([]*locus.Tensor, len(fields))
	for i, f := range fields {
		out[i] = f
		if f.DType().IsFloat() && i < len(fields)-1 { // targets belong to the loss
			out[i] = f.Cast(s.half)
		}
	}
	return nn.Bind(s.model, tree), out
}

// step trains on one batch: its parts on all devices at once, the sum of the
// gradients and the update on the first.
func (r *run) step(b *data.Batch, lr float64) error {
	if len(r.shards) == 1 {
		return r.stepAlone(b, lr)
	}
	parts := split(b, r.shards)
	scopes := make([]*locus.Scope, len(r.shards))
	grads := make([][]*locus.Tensor, len(r.shards))
	errs := make([]error, len(r.shards))
	var wg sync.WaitGroup
	for i, s := range r.shards {
		if parts[i].size == 0 {
			continue
		}
		scopes[i] = locus.NewScope()
		defer scopes[i].Close()
		wg.Go(func() {
			errs[i] = locus.Try(func() {
				share := float64(parts[i].size) / float64(b.Size)
				grads[i] = s.backward(scopes[i], parts[i].fields, parts[i].size, share, r.scale())
			})
		})
	}
	wg.Wait()
	defer b.Free()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return locus.Try(func() { r.accumulate(sum(grads, r.devices[0]), scopes[0], lr) })
}

func (r *run) stepAlone(b *data.Batch, lr float64) error {
	return locus.Try(func() {
		locus.Scoped(func(sc *locus.Scope) {
			r.accumulate(r.shards[0].backward(sc, b.Fields, b.Size, 1, r.scale()), sc, lr)
		})
	})
}

// accumulate adds gradients, which live on the first device in scope sc, to those
// that wait, and takes a step when there are enough.
func (r *run) accumulate(grads []*locus.Tensor, sc *locus.Scope, lr float64) {
	r.pending++
	if r.t.accumulate > 1 {
		if r.grads == nil {
			r.grads = make([]*locus.Tensor, len(grads))
		}
		for i, g := range grads {
			if g == nil {
				continue
			}
			if old := r.grads[i]; old != nil {
				g = old.Add(g)
				old.Free()
			}
			r.grads[i] = sc.Keep(g)
		}
		if r.pending < r.t.accumulate {
			return
		}
		grads = r.grads
	}
	r.update(grads, lr)
}

// flush takes a last step with the gradients that wait at the end of an epoch.
func (r *run) flush(lr float64) error {
	if r.pending == 0 {
		return nil
	}
	return locus.Try(func() { r.update(r.grads, lr) })
}

// update takes a step on the first device, and gives the others its result.
func (r *run) update(grads []*locus.Tensor, lr float64) {
	locus.Scoped(func(sc *locus.Scope) {
		used := make([]*locus.Tensor, len(grads))
		for i, g := range grads {
			if g != nil {
				used[i] = sc.Use(g)
				if r.pending > 1 {
					used[i] = used[i].Mul(1 / float64(r.pending))
				}
			}
		}
		var ok *locus.Tensor
		if r.scaler != nil {
			used, ok = r.scaler.unscale(used)
		}
		if r.t.clip > 0 {
			used, _ = locus.ClipGlobalNorm(used, r.t.clip)
		}
		r.opt.SetLR(lr)
		r.opt.StepIf(ok, used)
		if r.scaler != nil {
			r.scaler.update(ok)
		}
	})
	for _, s := range r.shards[1:] {
		s.copyFrom(r.shards[0])
	}
	for _, g := range r.grads {
		if g != nil {
			g.Free()
		}
	}
	r.grads, r.pending = nil, 0
	r.report.Steps = r.opt.Steps()
}

// scale is what losses are multiplied by; nil for nothing.
func (r *run) scale() *locus.Tensor {
	if r.scaler == nil {
		return nil
	}
	return r.scaler.scale
}

// sum adds the gradients of all shards up on device d, always in the same order.
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
	fields []*locus.Tensor
	size   int
}

// split cuts a batch into parts whose sizes differ by at most one; of a batch that
// is smaller than the number of devices some get nothing.
func split(b *data.Batch, shards []*shard) []part {
	parts := make([]part, len(shards))
	for _, f := range b.Fields {
		for i, c := range f.Chunk(len(shards), 0) {
			parts[i].size = c.Dim(0)
			parts[i].fields = append(parts[i].fields, own(c, shards[i].device))
		}
	}
	return parts
}

// own copies a part that is meant for device d: from the CPU to page-locked memory,
// from where a GPU can fetch it by itself.
func own(c *locus.Tensor, d locus.Device) *locus.Tensor {
	if d.IsGPU() && !c.Device().IsGPU() {
		if p := c.Pin(); !p.SharesMemory(c) {
			return p
		}
	}
	return c.Copy()
}
