package train

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// replica is one device's part in training: a network of the model's structure
// with metrics of its own. The model itself is the first.
type replica struct {
	device locus.Device
	model  Model
	params []nn.Entry // what the optimizer updates
	meter  *meter
	count  *counter // of Measure; nil without

	size, batch int    // of the part of a batch that is computed, and of the whole
	mates       *mates // the replicas that its layers share statistics with; nil if not synced
	seen        [2]int // first example and size of the part that layers were told of

	first *compiled // the gradients of a batch
	more  *compiled // the same, added to those that wait; of the first replica only
	whole *compiled // its part of a step

	synced    bool        // its layers share statistics with other replicas
	precision locus.DType // what the network is computed in
	lowered   bool        // precision is not the network's own

	state []nn.Entry      // all of the network's tensors
	from  []*locus.Tensor // the first replica's, of which state has copies
	own   []*locus.Tensor // these copies
}

func newReplica(s *settings, m Model, d locus.Device) *replica {
	r := &replica{device: d, model: m, meter: newMeter(), count: newCounter(s.measures), precision: s.precision, lowered: s.lowered, state: nn.State(m)}
	r.from, r.own = make([]*locus.Tensor, len(r.state)), make([]*locus.Tensor, len(r.state))
	return r
}

// restart begins to measure again.
func (r *replica) restart() {
	r.meter.restart()
	if r.count != nil {
		r.count.Reset()
	}
}

// reset forgets what was measured.
func (r *replica) reset() {
	r.meter.reset()
	if r.count != nil {
		r.count.Reset()
	}
}

// choose notes the parameters that the optimizer updates, by name: it may be given
// fewer than there are.
func (r *replica) choose(chosen []nn.Entry) {
	byName := map[string]nn.Entry{}
	for _, e := range nn.Parameters(r.model) {
		byName[e.Name] = e
	}
	for _, e := range chosen {
		own, ok := byName[e.Name]
		if !ok {
			panic(&locus.Error{Kind: locus.ErrArgument, Op: "train", Msg: "the optimizer updates " + e.Name + ", which is not a parameter of the model",
				Fix: "give it entries of the list that ConfigureOptimizer gets"})
		}
		r.params = append(r.params, own)
	}
}

// configure makes the model's optimizer.
func configure(s *settings, m Model) *optim.Optimizer {
	params := nn.Parameters(m)
	if c, ok := m.(OptimizerConfigurer); ok {
		if o := c.ConfigureOptimizer(params); o != nil {
			return o
		}
	}
	return optim.SGD(params, s.lr, optim.SGDOptions{})
}

// copyFrom sets a replica's tensors to the first device's parameters and buffers, as
// far as they were changed since the last time. So all replicas are equal to the bit,
// whatever the kinds of device: the first one's running statistics count, which come
// from its part of each batch.
func (r *replica) copyFrom(first *replica) {
	for i, e := range r.state {
		source := first.state[i]
		e.SetFrozen(source.Frozen())
		v := source.Value()
		if v == r.from[i] {
			continue
		}
		c := v.Detach().CopyTo(r.device)
		e.Set(c)
		if r.own[i] != nil {
			r.own[i].Free()
		}
		r.from[i], r.own[i] = v, c
	}
}

// backward computes the gradients of a part of a batch, which is on its device, in
// scope sc, of the parameters that are trained, weighted by its share of the batch and
// times the scale: the given one, or the scaler's unless that is nil. It counts the
// part's metrics, but for what is seen, which is to be counted behind the step. With each, that gets
// the gradients one by one as they become final, and not weighted: see share.
func (r *replica) backward(sc *locus.Scope, fields []*locus.Tensor, trained []int, scaler *optim.Scaler, scale *locus.Tensor, each func(k int, g *locus.Tensor)) (grads, seen []*locus.Tensor) {
	trace.Watch(sizeKey{r}, "the number of examples of a batch", func() any { return [2]int{r.size, r.batch} })
	used := make([]*locus.Tensor, len(fields))
	for i, f := range fields {
		used[i] = sc.Use(f)
	}
	model, used := r.lower(sc, used)
	leaves := make([]*locus.Tensor, len(trained))
	for k, i := range trained {
		leaves[k] = r.params[i].Value()
	}
	var loss *locus.Tensor
	var metrics map[string]*locus.Tensor
	func() {
		defer watch(r.model)()
		loss, metrics, seen = trainingStep(model, used, r.count.meter())
	}()
	seen = r.count.inside(sc, seen)
	r.meter.add("loss", loss, r.size)
	r.meter.addAll(metrics, r.size)
	if len(trained) == 0 {
		return nil, seen
	}
	if r.synced { // the weight of a loss of which others get gradients
		loss = loss.Mul(float64(r.size) / float64(r.batch))
	}
	switch {
	case scale != nil:
		loss = loss.Mul(scale.Cast(loss.DType()))
	case scaler != nil:
		loss = scaler.Scale(loss)
	}
	if each != nil {
		locus.GradEach([]*locus.Tensor{loss}, leaves, each, locus.FreeGraph)
		return nil, seen
	}
	grads = locus.Grad([]*locus.Tensor{loss}, leaves, locus.FreeGraph)
	if share := r.share(); share != 1 {
		for k, g := range grads {
			grads[k] = g.Mul(share)
		}
	}
	return grads, seen
}

// share returns the weight that the gradients of a replica's part of a batch get: 1 where the
// loss has it already.
func (r *replica) share() float64 {
	if r.synced {
		return 1
	}
	return float64(r.size) / float64(r.batch)
}

// sizeKey is the key under which the size of a replica's part is watched.
type sizeKey struct{ r *replica }

// lower returns the model and a batch in the precision that the network is
// computed in. Gradients flow through the rounding to the parameters themselves,
// and running statistics stay the model's own.
func (r *replica) lower(sc *locus.Scope, fields []*locus.Tensor) (Model, []*locus.Tensor) {
	if !r.lowered {
		return r.model, fields
	}
	out := make([]*locus.Tensor, len(fields))
	for i, f := range fields {
		out[i] = f
		if f.DType().IsFloat() && (i < len(fields)-1 || i == 0) { // targets belong to the loss
			out[i] = f.Cast(r.precision)
		}
	}
	return nn.Lower(sc, r.model, r.precision), out
}
