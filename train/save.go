package train

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/weights/checkpoint"
)

// saver writes checkpoints.
type saver struct{ dir *checkpoint.Dir }

// saved is what a checkpoint holds besides the tensors.
type saved struct {
	Epoch     int                  `json:"epoch"` // where to go on
	Batch     int                  `json:"batch"`
	Steps     int64                `json:"steps"`
	Seed      uint64               `json:"seed"`
	Counters  []map[string]uint64  `json:"counters"`        // of every replica of every rank; all draw alike
	Ranks     int                  `json:"ranks,omitempty"` // 0 without
	Epochs    []Epoch              `json:"history"`
	BestEpoch int                  `json:"best_epoch"`
	BestValue float64              `json:"best_value"`
	SinceBest int                  `json:"since_best"`
	Pending   int                  `json:"pending,omitempty"`  // batches whose gradients wait for a step
	Examples  int                  `json:"examples,omitempty"` // of the epoch so far
	Weights   []map[string]float64 `json:"weights,omitempty"`  // of its metrics, for every replica
	Hyper     Hyperparameters      `json:"hyperparameters,omitempty"`
	Own       []string             `json:"own_hyperparameters,omitempty"` // names of those that are not the trainer's
	Plateau   *optim.PlateauState  `json:"plateau,omitempty"`
	Averaged  int64                `json:"averaged,omitempty"` // updates of the averages
	LR        *float64             `json:"lr,omitempty"`       // of the next step by the schedule, as a multiple of the optimizer's
}

// openCheckpoints opens the folder, and goes on from the last checkpoint where
// that was asked for.
func (r *run) openCheckpoints() error {
	if !r.set.save {
		return nil
	}
	dir, err := checkpoint.Open(r.set.checkpoints, r.set.keep)
	if err != nil {
		return err
	}
	r.saver = &saver{dir}
	if !r.set.resume {
		return nil
	}
	c, err := dir.Latest()
	if errors.Is(err, checkpoint.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	return r.restore(c)
}

// The names of a checkpoint's tensors begin with what they belong to.
const (
	modelPrefix  = "model."
	optimPrefix  = "optim."
	bestPrefix   = "best."
	scalerPrefix = "scaler."
	gradPrefix   = "grad."  // sums over the batches that wait for a step; of several ranks, one row each
	meterPrefix  = "meter." // and the replica's number: sums of the epoch's metrics
	countPrefix  = "count." // and the replica's number: those of Measure
	avgPrefix    = "average."
)

// save writes the state of the run, which is to go on with the given batch. All ranks call
// it, and the first writes.
func (s *saver) save(r *run, epoch, batch int) error {
	own, err := r.ownStates(batch > 0)
	if err != nil {
		return err
	}
	optimizer, drop, err := r.optimizerState()
	if err != nil || !r.ranks.first() {
		return err
	}
	defer drop()
	tensors := map[string]*locus.Tensor{}
	for _, e := range nn.State(r.model) {
		tensors[modelPrefix+e.Name] = e.Value()
	}
	for name, t := range optimizer {
		tensors[optimPrefix+name] = t
	}
	for name, t := range r.monitor.best {
		tensors[bestPrefix+name] = t
	}
	if r.scaler != nil {
		for name, t := range r.scaler.State() {
			tensors[scalerPrefix+name] = t
		}
	}
	state := saved{Epoch: epoch, Batch: batch, Steps: r.opt.Steps(), Seed: r.set.seed,
		Epochs: r.report.Epochs, BestEpoch: r.report.BestEpoch, BestValue: r.monitor.value, SinceBest: r.monitor.sinceBest, Pending: r.pending,
		Hyper: r.report.Hyperparameters, Own: r.own}
	if r.plateau != nil {
		p := r.plateau.State()
		state.Plateau = &p
	}
	if r.average != nil {
		state.Averaged = r.average.Updates()
		for name, t := range r.average.Tree() {
			tensors[avgPrefix+name] = t
		}
	}
	if lr := r.schedule(state.Steps); !math.IsNaN(lr) && !math.IsInf(lr, 0) {
		state.LR = &lr
	}
	if batch > 0 {
		state.Examples = r.epoch.Examples
	}
	addTo(&state, tensors, own)
	_, err = s.dir.Save(tensors, state)
	return err
}

// restore puts the state of a checkpoint in place, on every device.
func (r *run) restore(c *checkpoint.Checkpoint) error {
	var s saved
	if err := c.State(&s); err != nil {
		return err
	}
	switch {
	case s.Seed != r.set.seed:
		return fmt.Errorf("train: the checkpoint is of a run with Seed(%d), not %d: its batches would come in another order: %w", s.Seed, r.set.seed, locus.ErrArgument)
	case s.Ranks < 0 || len(s.Counters) == 0 || len(s.Counters)%max(s.Ranks, 1) != 0:
		return fmt.Errorf("train: the checkpoint says that it is of %d ranks with %d devices in all: %w", s.Ranks, len(s.Counters), locus.ErrArgument)
	}
	if err := r.sameModel(c); err != nil {
		return err
	}
	moved, err := r.compare(&s)
	if err != nil {
		return err
	}
	if moved && s.Batch > 0 { // its place in the epoch means nothing now
		s.Batch, s.Examples, s.Pending, s.Weights = 0, 0, 0, nil
	}
	r.dropOthers(&s)
	_, ranks := r.ranks.of()
	r.apart = len(s.Counters) == ranks*len(r.replicas) && drewApart(s.Counters)
	if s.Pending >= r.set.accumulate && s.Pending > 0 {
		return fmt.Errorf("train: in the checkpoint the gradients of %d batches wait for a step, which Accumulate(%d) would have taken: %w", s.Pending, r.set.accumulate, locus.ErrArgument)
	}
	for i, p := range r.replicas {
		if err := r.restoreReplica(c, &s, p, r.ranks.place(i, len(r.replicas))); err != nil {
			return err
		}
	}
	if err := r.restoreFirst(c, &s); err != nil {
		return err
	}
	r.epoch, r.startBatch = Epoch{Number: s.Epoch, Examples: s.Examples}, s.Batch
	if r.plateau != nil && s.Plateau != nil {
		if err := r.plateau.SetState(*s.Plateau); err != nil {
			return err
		}
	}
	r.epoch.LR = r.rate(s.Steps)
	r.report.Epochs, r.report.Steps, r.report.BestEpoch = s.Epochs, s.Steps, s.BestEpoch
	r.monitor.value, r.monitor.sinceBest = s.BestValue, s.SinceBest
	return nil
}

// restoreReplica loads what every replica has: the model's state, counters and metrics. at is
// its place among the devices of all ranks.
func (r *run) restoreReplica(c *checkpoint.Checkpoint, s *saved, p *replica, at int) error {
	for _, e := range p.state {
		t, err := c.Tensors.Load(modelPrefix+e.Name, p.device)
		if err != nil {
			return r.another(err)
		}
		e.Set(t)
	}
	counters := s.Counters[0]
	if r.apart {
		counters = s.Counters[at]
	}
	if err := nn.SetCounters(p.model, counters); err != nil {
		return err
	}
	if at >= len(s.Weights) {
		return nil
	}
	for name, w := range s.Weights[at] {
		t, err := c.Tensors.Load(fmt.Sprint(meterPrefix, at, ".", name), p.device)
		if err != nil {
			return err
		}
		p.meter.sums[name], p.meter.weights[name] = t, w
	}
	if err := p.restoreCount(c, fmt.Sprint(countPrefix, at, ".")); err != nil {
		return fmt.Errorf("train: the checkpoint in %s is of a run that measures something else: %w", r.set.checkpoints, err)
	}
	return nil
}

// restoreFirst loads what belongs to the first device only: the optimizer's state, gradients
// that wait for a step, the loss scale, averages and the best parameters. The model has been
// restored, because averages may begin with it.
func (r *run) restoreFirst(c *checkpoint.Checkpoint, s *saved) error {
	first := r.devices[0]
	state, grads, averages := map[string]*locus.Tensor{}, map[string]*locus.Tensor{}, nn.Tree{}
	for _, name := range c.Tensors.Names() {
		prefix, rest, _ := strings.Cut(name, ".")
		into, at := state, first
		switch prefix + "." {
		case optimPrefix:
		case gradPrefix:
			into = grads
		case avgPrefix:
			into = averages
		case bestPrefix:
			if r.monitor.best == nil {
				r.monitor.best = nn.Tree{}
			}
			into, at = r.monitor.best, locus.CPU()
		default:
			continue
		}
		t, err := c.Tensors.Load(name, at)
		if err != nil {
			return err
		}
		into[rest] = t
	}
	err := r.opt.SetState(state, s.Steps)
	freeAll(slices.Collect(maps.Values(state)))
	if err != nil {
		return err
	}
	if s.Pending > 0 {
		r.grads, r.pending = make([]*locus.Tensor, len(r.replicas[0].params)), s.Pending
		for i, e := range r.replicas[0].params {
			if g := grads[e.Name]; g != nil {
				r.grads[i] = r.ownGrad(g, max(s.Ranks, 1))
			}
			if r.grads[i] != nil && !slices.Equal(r.grads[i].Shape(), e.Value().Shape()) {
				return r.another(fmt.Errorf("the gradient of %s has shape %v: %w", e.Name, r.grads[i].Shape(), locus.ErrShape))
			}
		}
	}
	_, scaled := c.Tensors.Info(scalerPrefix + "scale")
	if r.scaler != nil && (scaled || !slices.Contains(r.set.accept, "trainer.precision")) {
		state := map[string]*locus.Tensor{}
		for name := range r.scaler.State() {
			t, err := c.Tensors.Load(scalerPrefix+name, first)
			if err != nil {
				return fmt.Errorf("train: the checkpoint in %s is of a run in another precision: %w", r.set.checkpoints, err)
			}
			state[name] = t
		}
		if err := r.scaler.SetState(state); err != nil {
			return err
		}
	}
	if r.average != nil {
		return r.restoreAverage(averages, s.Averaged)
	}
	return nil
}

// another is the error of a checkpoint that does not fit the model.
func (r *run) another(err error) error {
	return fmt.Errorf("train: the checkpoint in %s is of another model: %w", r.set.checkpoints, err)
}

// sameModel refuses a checkpoint of another model before anything is changed.
func (r *run) sameModel(c *checkpoint.Checkpoint) error {
	for _, e := range r.replicas[0].state {
		info, ok := c.Tensors.Info(modelPrefix + e.Name)
		if !ok {
			return r.another(fmt.Errorf("it has no %s: %w", e.Name, locus.ErrArgument))
		}
		if v := e.Value(); !slices.Equal(v.Shape(), info.Shape) {
			return r.another(fmt.Errorf("%s has shape %v there and %v here: %w", e.Name, info.Shape, v.Shape(), locus.ErrShape))
		}
	}
	return nil
}

// restoreAverage puts the averages back. Those of a run that kept none begin with
// the checkpoint's parameters.
func (r *run) restoreAverage(tree nn.Tree, updates int64) error {
	defer func() {
		for _, t := range tree {
			t.Free()
		}
	}()
	if err := r.average.SetState(tree, updates); err != nil {
		return r.another(err)
	}
	if updates == 0 {
		r.average.Update()
	}
	return nil
}

// restoreCount puts the sums of Measure back, whose names begin with prefix.
func (r *replica) restoreCount(c *checkpoint.Checkpoint, prefix string) error {
	if r.count == nil {
		return nil
	}
	sums := map[string]*locus.Tensor{}
	for _, name := range c.Tensors.Names() {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		t, err := c.Tensors.Load(name, r.device)
		if err != nil {
			return err
		}
		defer t.Free()
		sums[rest] = t
	}
	return r.count.SetState(sums)
}

// interrupt ends a run whose context is done: with a checkpoint, so that it can go
// on at this batch.
func (r *run) interrupt(batch int) error {
	r.ranks.settle()
	r.report.Stopped = "interrupted"
	err := fmt.Errorf("train: interrupted: %w", why(r.ctx))
	if r.saver == nil {
		return err
	}
	if e := r.saver.save(r, r.epoch.Number, batch); e != nil {
		return errors.Join(err, e)
	}
	return err
}
