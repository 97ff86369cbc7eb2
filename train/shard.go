package train

import (
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// shard is one device's part in training: a replica of the model with its own
// optimizer and its own metrics.
type shard struct {
	device locus.Device
	model  Model
	params []nn.Entry
	opt    *optim.Optimizer
	meter  *meter
	half   locus.DType // what the network is computed in; 0 for its own type

	grads []*locus.Tensor // of the batches since the last step; in no scope
}

func newShard(t *Trainer, m Model, d locus.Device) *shard {
	s := &shard{device: d, model: m, params: nn.Parameters(m), meter: newMeter(), half: t.precision}
	if c, ok := m.(OptimizerConfigurer); ok {
		s.opt = c.ConfigureOptimizer(s.params)
	}
	if s.opt == nil {
		s.opt = optim.SGD(s.params, t.lr, optim.SGDOptions{})
	}
	s.params = s.opt.Params()
	return s
}

// backward computes the gradients of a part of a batch, in scope sc, scaled by its
// share, and counts its metrics.
func (s *shard) backward(sc *locus.Scope, fields []*locus.Tensor, size int, share float64) []*locus.Tensor {
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
	var trained []*locus.Tensor
	var at []int
	for i, p := range s.params {
		if !p.Frozen() {
			trained, at = append(trained, leaves[i]), append(at, i)
		}
	}
	grads := make([]*locus.Tensor, len(leaves))
	for k, g := range locus.Grad([]*locus.Tensor{loss}, trained) {
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
	for _, e := range nn.State(s.model) {
		v := e.Value()
		if e.Kind == nn.Trained && v.DType().IsFloat() {
			v = v.Cast(s.half)
		}
		tree[e.Name] = v
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
// gradients on the first, the same update everywhere.
func (r *run) step(b *data.Batch, lr float64) error {
	if len(r.shards) == 1 {
		return r.stepAlone(b, lr)
	}
	parts := split(b, len(r.shards))
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
				grads[i] = s.backward(scopes[i], parts[i].fields, parts[i].size, share)
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
			r.accumulate(r.shards[0].backward(sc, b.Fields, b.Size, 1), sc, lr)
		})
	})
}

// accumulate adds gradients, which live on the first device in scope sc, to those
// that wait, and takes a step when there are enough.
func (r *run) accumulate(grads []*locus.Tensor, sc *locus.Scope, lr float64) {
	s := r.shards[0]
	r.pending++
	if r.t.accumulate > 1 {
		for i, g := range grads {
			if g == nil {
				continue
			}
			if s.grads == nil {
				s.grads = make([]*locus.Tensor, len(grads))
			}
			if old := s.grads[i]; old != nil {
				g = old.Add(g)
				old.Free()
			}
			s.grads[i] = sc.Keep(g)
		}
		if r.pending < r.t.accumulate {
			return
		}
		grads = s.grads
	}
	r.update(grads, lr)
}

// flush takes a last step with the gradients that wait at the end of an epoch.
func (r *run) flush(lr float64) error {
	if r.pending == 0 {
		return nil
	}
	return locus.Try(func() { r.update(r.shards[0].grads, lr) })
}

// update takes the same step on every device.
func (r *run) update(grads []*locus.Tensor, lr float64) {
	defer func() {
		for _, g := range r.shards[0].grads {
			if g != nil {
				g.Free()
			}
		}
		r.shards[0].grads = nil
		r.pending = 0
		r.report.Steps = r.steps()
	}()
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
		if r.t.clip > 0 {
			used, _ = locus.ClipGlobalNorm(used, r.t.clip)
		}
		for _, s := range r.shards {
			s.opt.SetLR(lr)
			own := make([]*locus.Tensor, len(used))
			for i, g := range used {
				if g != nil {
					own[i] = g.To(s.device)
				}
			}
			s.opt.StepWith(own)
		}
	})
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
func split(b *data.Batch, n int) []part {
	parts := make([]part, n)
	for _, f := range b.Fields {
		for i, c := range f.Chunk(n, 0) {
			parts[i].size = c.Dim(0)
			parts[i].fields = append(parts[i].fields, c.Copy())
		}
	}
	return parts
}
