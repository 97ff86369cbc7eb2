package train

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train/metric"
)

// runEpoch runs one pass over the data, or what is left of it; done reports that
// training is over early.
func (r *run) runEpoch() (done bool, err error) {
	e := &r.epoch
	start := time.Now()
	if r.progress != nil {
		r.progress.Epoch(e.Number + 1)
		r.progress.Add(int64(r.startBatch))
	}
	if err := r.checkEqual(); err != nil {
		return false, err
	}
	if err := r.heed(tell(r.set.beforeEpoch, *e)); err != nil {
		return false, err
	}
	r.curves.begin(e.Examples)
	r.recheck()
	if err := r.runBatches(); err != nil {
		return false, err
	}
	e.Time = time.Since(start)
	if e.Train, err = r.metrics(); err != nil {
		return false, err
	}
	r.curves.metrics(float64(e.Number+1), "training", e.Train)
	r.curves.costs(float64(e.Number+1), r)
	if r.validation != nil {
		scores, err := r.validate()
		if err != nil {
			return false, err
		}
		if scores.Values == nil {
			return false, r.interrupt(r.train.Len())
		}
		e.Validation, e.Tables = scores.Values, scores.Tables
	}
	for _, p := range r.replicas {
		p.restart()
	}
	if done, err = r.judge(e); err != nil {
		return false, err
	}
	r.report.Epochs = append(r.report.Epochs, *e)
	r.show("", e.Train)
	r.show("validation ", e.Validation)
	r.curves.metrics(float64(e.Number+1), "validation", e.Validation)
	return r.closeEpoch(done)
}

// runBatches takes the steps of an epoch, from the batch on that it starts at. An end in the
// middle of it is an error.
func (r *run) runBatches() error {
	e, last := &r.epoch, 0
	for batch, err := range r.train.EpochFrom(e.Number, r.startBatch) {
		if err != nil {
			return err
		}
		if how, err := r.ends(); err != nil || how != goesOn {
			batch.Free()
			return r.endBefore(batch.Index, how, err)
		}
		last = batch.Index
		size := batch.Whole
		e.LR = r.rate(r.report.Steps)
		if r.pending == 0 {
			if err := r.heed(r.tellStep(r.set.beforeStep, last)); err != nil {
				batch.Free()
				return err
			}
		}
		if err := r.beginProfile(); err != nil {
			batch.Free()
			return err
		}
		if err := r.step(batch, e.LR); err != nil {
			return err
		}
		if err := r.endProfile(false); err != nil {
			return err
		}
		e.Examples += size
		if err := r.afterBatch(last); err != nil {
			return err
		}
	}
	stepped, err := r.flush(e.LR)
	if err != nil {
		return err
	}
	if stepped {
		if err := r.heed(r.tellStep(r.set.afterStep, last)); err != nil {
			return err
		}
	}
	if how, err := r.ends(); err != nil || how == stopped {
		return r.endBefore(r.train.Len(), how, err)
	}
	return nil
}

// closeEpoch tells callbacks that an epoch is over and saves it. It reports whether training
// is done.
func (r *run) closeEpoch(done bool) (bool, error) {
	e := &r.epoch
	stop := tell(r.set.afterEpoch, *e)
	if stop != nil && !errors.Is(stop, ErrStop) {
		return false, stop
	}
	r.copyState() // what a callback has changed
	if r.saver != nil {
		if err := r.saver.save(r, e.Number+1, 0); err != nil {
			return false, err
		}
	}
	if r.ranks != nil { // none goes on, or leaves, before the checkpoint is written
		r.stopping = r.stopping || stop != nil
		if how, err := r.ends(); err != nil || how == stopped {
			return false, r.endBefore(0, how, err)
		}
		return done, nil
	}
	return done, stop
}

// endBefore ends training before a batch, for the reason that the ranks agreed on.
func (r *run) endBefore(batch int, how end, err error) error {
	switch {
	case err != nil:
		return err
	case how == stopped:
		r.ranks.settle()
		return ErrStop
	}
	return r.interrupt(batch)
}

// afterBatch tells callbacks if a step was taken and, now and then, reads the
// metrics.
func (r *run) afterBatch(index int) error {
	if r.progress != nil {
		r.progress.Add(1)
	}
	if r.pending == 0 {
		if err := r.heed(r.tellStep(r.set.afterStep, index)); err != nil {
			return err
		}
	}
	if r.set.logEvery <= 0 || (index+1)%r.set.logEvery != 0 {
		return nil
	}
	now, err := r.metrics()
	if err != nil {
		return err
	}
	r.show("", now)
	if index+1 < r.train.Len() { // the end of the epoch draws its own
		x := float64(r.epoch.Number) + float64(index+1)/float64(r.train.Len())
		r.curves.metrics(x, "training", now)
		r.curves.costs(x, r)
	}
	return nil
}

// rate is the learning rate of the step after the given number of steps.
func (r *run) rate(steps int64) float64 {
	lr := r.baseLR * r.schedule(steps)
	if r.plateau != nil {
		lr *= r.plateau.Factor()
	}
	return lr
}

// tellStep tells callbacks of a step.
func (r *run) tellStep(callbacks []func(*Step) error, index int) error {
	if len(callbacks) == 0 {
		return nil
	}
	info := Step{Epoch: r.epoch.Number, Index: index, Steps: r.report.Steps, LR: r.epoch.LR}
	for _, p := range r.replicas {
		info.Models = append(info.Models, p.model)
	}
	return tell(callbacks, info)
}

// metrics reads those of the epoch so far from all devices of all ranks. A mean that is not
// finite is an error; what [Measure] computes may not be defined yet.
func (r *run) metrics() (map[string]float64, error) {
	meters, counts := make([]*meter, len(r.replicas)), make([]*counter, len(r.replicas))
	for i, p := range r.replicas {
		meters[i], counts[i] = p.meter, p.count
	}
	readings, counted, err := r.ranks.measuredBy(r.set.measures, meters, counts)
	if err != nil {
		return nil, err
	}
	defer r.ranks.drop(counted)
	means := merge(readings)
	if name, ok := finite(means); !ok {
		r.ranks.settle()
		return nil, r.notFinite(name, means[name])
	}
	if len(r.set.measures) > 0 {
		maps.Copy(means, metric.Read(counted...).Values)
	}
	return means, nil
}

func (r *run) notFinite(name string, v float64) error {
	where := ""
	if r.saver != nil {
		where = "; the checkpoints in " + r.set.checkpoints + " are from before"
	}
	return fmt.Errorf("%w: the %s is %v in epoch %d; try a smaller learning rate, ClipGradients, or look for bad values in the data%s", ErrNotFinite, name, v, r.epoch.Number+1, where)
}

// validate measures the model on the validation data, on all devices. It returns
// nothing if the run was interrupted.
func (r *run) validate() (metric.Result, error) {
	r.copyState() // what a callback has changed
	var tree nn.Tree
	if r.average != nil {
		tree = r.measured()
	}
	if r.evaluation == nil {
		models := make([]Model, len(r.replicas))
		for i, p := range r.replicas {
			if models[i] = p.model; tree != nil {
				models[i] = bound(p.model, tree, p.device)
			}
		}
		r.evaluation = newEvaluation(r.set, &r.why, Validating, r.devices, models, r.ranks)
	}
	e := r.evaluation
	for i, p := range r.replicas {
		if tree != nil {
			for _, entry := range nn.State(e.models[i]) {
				entry.Set(tree[entry.Name].To(p.device))
			}
			continue
		}
		nn.Eval(p.model)
		defer nn.Train(p.model)
	}
	scores, err := e.measure(r.ctx, r.validation)
	if err != nil && (r.ctx.Err() != nil && errors.Is(err, r.ctx.Err()) || errors.Is(err, errElsewhere)) {
		return metric.Result{}, nil
	}
	return scores, err
}

// show puts metrics on the progress line, always in the same order.
func (r *run) show(prefix string, values map[string]float64) {
	if r.progress == nil {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		r.progress.Set(prefix+k, values[k])
	}
}
