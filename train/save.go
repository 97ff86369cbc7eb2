package train

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights/checkpoint"
)

// saver writes checkpoints.
type saver struct{ dir *checkpoint.Dir }

// saved is what a checkpoint holds beside the tensors.
type saved struct {
	Epoch     int                 `json:"epoch"` // where to go on
	Batch     int                 `json:"batch"`
	Steps     int64               `json:"steps"`
	Seed      uint64              `json:"seed"`
	Counters  []map[string]uint64 `json:"counters"` // of every replica
	Epochs    []Epoch             `json:"history"`
	BestEpoch int                 `json:"best_epoch"`
	BestValue float64             `json:"best_value"`
	SinceBest int                 `json:"since_best"`
}

// openCheckpoints opens the folder, and goes on from the last checkpoint where
// that was asked for.
func (r *run) openCheckpoints() error {
	if r.t.checkpoints == "" {
		return nil
	}
	dir, err := checkpoint.Open(r.t.checkpoints, r.t.keep)
	if err != nil {
		return err
	}
	r.saver = &saver{dir}
	if !r.t.resume {
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

const modelPrefix, optimPrefix, bestPrefix, scalerPrefix = "model.", "optim.", "best.", "scaler."

// save writes the state of the run, which is to go on with the given batch.
func (s *saver) save(r *run, epoch, batch int) error {
	tensors := map[string]*locus.Tensor{}
	for _, e := range nn.State(r.model) {
		tensors[modelPrefix+e.Name] = e.Value()
	}
	for name, t := range r.opt.State() {
		tensors[optimPrefix+name] = t
	}
	for name, t := range r.best {
		tensors[bestPrefix+name] = t
	}
	if r.scaler != nil {
		tensors[scalerPrefix+"scale"], tensors[scalerPrefix+"good"] = r.scaler.scale, r.scaler.good
	}
	var counters []map[string]uint64
	for _, sh := range r.shards {
		counters = append(counters, nn.Counters(sh.model))
	}
	_, err := s.dir.Save(tensors, saved{Epoch: epoch, Batch: batch, Steps: r.opt.Steps(), Seed: r.t.seed, Counters: counters,
		Epochs: r.report.Epochs, BestEpoch: r.report.BestEpoch, BestValue: r.bestValue, SinceBest: r.sinceBest})
	return err
}

// restore puts the state of a checkpoint in place, on every device.
func (r *run) restore(c *checkpoint.Checkpoint) error {
	var s saved
	if err := c.State(&s); err != nil {
		return err
	}
	if s.Seed != r.t.seed {
		return fmt.Errorf("train: the checkpoint is of a run with Seed(%d), not %d: its batches would come in another order: %w", s.Seed, r.t.seed, locus.ErrArgument)
	}
	if len(s.Counters) != len(r.shards) {
		return fmt.Errorf("train: the checkpoint is of a run on %d devices, not %d: its parts of batches would be others: %w", len(s.Counters), len(r.shards), locus.ErrArgument)
	}
	state := map[string]*locus.Tensor{}
	for _, name := range c.Tensors.Names() {
		into, at := state, r.devices[0]
		rest, ok := strings.CutPrefix(name, optimPrefix)
		if !ok {
			if rest, ok = strings.CutPrefix(name, bestPrefix); !ok {
				continue
			}
			if r.best == nil {
				r.best = nn.Tree{}
			}
			into, at = r.best, locus.CPU()
		}
		t, err := c.Tensors.Load(name, at)
		if err != nil {
			return err
		}
		into[rest] = t
	}
	for i, sh := range r.shards {
		for _, e := range nn.State(sh.model) {
			t, err := c.Tensors.Load(modelPrefix+e.Name, sh.device)
			if err != nil {
				return fmt.Errorf("train: the checkpoint in %s is of another model: %w", r.t.checkpoints, err)
			}
			if v := e.Value(); !slices.Equal(v.Shape(), t.Shape()) {
				return fmt.Errorf("train: the checkpoint in %s is of another model: %s has shape %v there and %v here: %w", r.t.checkpoints, e.Name, t.Shape(), v.Shape(), locus.ErrShape)
			}
			e.Set(t)
		}
		if err := nn.SetCounters(sh.model, s.Counters[i]); err != nil {
			return err
		}
	}
	if err := r.opt.SetState(state, s.Steps); err != nil {
		return err
	}
	if r.scaler != nil {
		for name, t := range map[string]**locus.Tensor{"scale": &r.scaler.scale, "good": &r.scaler.good} {
			saved, err := c.Tensors.Load(scalerPrefix+name, r.devices[0])
			if err != nil {
				return fmt.Errorf("train: the checkpoint in %s is of a run in another precision: %w", r.t.checkpoints, err)
			}
			*t = saved
		}
	}
	r.startEpoch, r.startBatch = s.Epoch, s.Batch
	r.report.Epochs, r.report.Steps, r.report.BestEpoch = s.Epochs, s.Steps, s.BestEpoch
	r.bestValue, r.sinceBest = s.BestValue, s.SinceBest
	return nil
}

// interrupt ends a run whose context is done: with a checkpoint, so that it can go
// on at this batch.
func (r *run) interrupt(epoch, batch int) error {
	r.report.Stopped = "interrupted"
	err := fmt.Errorf("train: interrupted: %w", r.ctx.Err())
	if r.saver == nil {
		return err
	}
	if r.pending > 0 { // gradients that wait are not saved: go on where they begin
		batch -= r.pending
	}
	if e := r.saver.save(r, epoch, batch); e != nil {
		return errors.Join(err, e)
	}
	return err
}
