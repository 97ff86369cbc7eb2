package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Fit trains a model. The model ends up on the first of the trainer's devices.
// Whatever goes wrong is returned as an error, with the report of what was done.
func (t *Trainer) Fit(model Model, d Data) (*Report, error) {
	return t.FitContext(context.Background(), model, d)
}

// FitContext is Fit that ends when ctx does, with its error, after the step at
// hand; where there are checkpoints, one is written first.
func (t *Trainer) FitContext(ctx context.Context, model Model, d Data) (*Report, error) {
	devices, err := t.check(d)
	if err != nil {
		return nil, err
	}
	r := &run{t: t, ctx: ctx, data: d, devices: devices, model: model, report: &Report{Devices: devices, BestEpoch: -1, PeakMemory: map[string]int64{}}}
	start := time.Now()
	failed := locus.Try(func() { err = r.fit() })
	if err == nil {
		err = failed
	}
	r.close()
	r.report.Time = time.Since(start)
	for _, d := range devices {
		r.report.PeakMemory[d.String()] = d.MemoryStats().Peak
	}
	if errors.Is(err, ErrStop) {
		r.report.Stopped, err = "a callback asked for it", nil
	}
	return r.report, err
}

// run is one call of Fit.
type run struct {
	t       *Trainer
	ctx     context.Context
	data    Data
	devices []locus.Device
	model   Model
	report  *Report

	train, validation *data.Loader
	shards            []*shard
	opt               *optim.Optimizer
	scaler            *scaler         // float16 only
	grads             []*locus.Tensor // of the batches since the last step, on the first device; in no scope
	schedule          optim.Schedule
	baseLR            float64
	progress          *board.Progress
	saver             *saver
	best              nn.Tree
	bestValue         float64
	sinceBest         int
	pending           int // batches whose gradients wait for a step
	startEpoch        int
	startBatch        int
}

// fit prepares, then runs the epochs.
func (r *run) fit() error {
	if err := r.prepareData(); err != nil {
		return err
	}
	if err := r.prepareModel(); err != nil {
		return err
	}
	for _, d := range r.devices {
		d.ResetPeak()
	}
	r.prepareBoard()
	for epoch := r.startEpoch; epoch < r.t.maxEpochs; epoch++ {
		done, err := r.epoch(epoch)
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	if r.t.keepBest && r.best != nil {
		for _, e := range nn.State(r.model) {
			e.Set(r.best[e.Name].To(r.devices[0]))
		}
	}
	return nil
}

// prepareData makes the loaders. With one device, batches are put there ahead of
// the step; with several, they are split first.
func (r *run) prepareData() error {
	o := data.Options{BatchSize: r.data.BatchSize, Shuffle: !r.data.InOrder, DropLast: r.data.DropLast, Workers: r.data.Workers,
		Key: locus.NewKey(r.t.seed)}
	if len(r.devices) == 1 {
		o.Device = r.devices[0]
	}
	var err error
	if r.train, err = data.NewLoader(r.data.Train, o); err != nil {
		return err
	}
	if r.data.Validation != nil {
		o.Shuffle, o.DropLast, o.Device = false, false, r.devices[0]
		o.BatchSize = min(o.BatchSize, max(1, r.data.Validation.Len()))
		if r.validation, err = data.NewLoader(r.data.Validation, o); err != nil {
			return err
		}
	}
	return nil
}

// prepareModel puts the model on the first device, lets lazy layers see an input,
// makes its optimizer, and replicas on the others.
func (r *run) prepareModel() error {
	nn.To(r.model, r.devices[0])
	if err := r.warmUp(); err != nil {
		return err
	}
	nn.Train(r.model)
	for i, d := range r.devices {
		m := r.model
		if i > 0 {
			m = nn.CopyTo(r.model, d)
		}
		r.shards = append(r.shards, newShard(r.t, m, d))
	}
	r.opt = configure(r.t, r.model)
	for _, s := range r.shards {
		s.keep(r.opt.Params())
	}
	for _, e := range r.opt.Params() {
		r.report.Parameters += e.Value().Len()
	}
	if r.t.precision == locus.Float16 {
		r.scaler = newScaler(r.devices[0])
	}
	r.baseLR = r.opt.LR()
	r.schedule = r.t.schedule
	if r.schedule == nil {
		r.schedule = optim.Fixed()
	}
	return r.openCheckpoints()
}

// warmUp runs the model once where it has lazy layers.
func (r *run) warmUp() error {
	lazy := false
	for _, e := range nn.State(r.model) {
		lazy = lazy || e.Value() == nil
	}
	if !lazy {
		return nil
	}
	fields, err := r.data.Train.Batch([]int{0}, locus.NewKey(r.t.seed))
	if err != nil {
		return err
	}
	nn.Eval(r.model)
	s := locus.NewScope()
	defer s.Close()
	locus.NoGrad(func() { trainingStep(r.model, place(s, fields, r.devices[0])) })
	return nil
}

// place puts the fields of a batch on a device, in a scope.
func place(s *locus.Scope, fields []*locus.Tensor, d locus.Device) []*locus.Tensor {
	out := make([]*locus.Tensor, len(fields))
	for i, f := range fields {
		out[i] = s.Adopt(f).To(d)
	}
	return out
}

// epoch runs one pass over the data; done reports that training is over early.
func (r *run) epoch(number int) (done bool, err error) {
	e := Epoch{Number: number}
	start := time.Now()
	from := 0
	if number == r.startEpoch {
		from = r.startBatch
	}
	if r.progress != nil {
		r.progress.Epoch(number + 1)
		r.progress.Add(int64(from))
	}
	for batch, err := range r.train.EpochFrom(number, from) {
		if err != nil {
			return false, err
		}
		if r.ctx.Err() != nil {
			batch.Free()
			return false, r.interrupt(number, batch.Index)
		}
		e.Examples += batch.Size
		e.LR = r.baseLR * r.schedule(r.report.Steps)
		if err := r.step(batch, e.LR); err != nil {
			return false, err
		}
		if err := r.afterStep(number, batch.Index, e.LR); err != nil {
			return false, err
		}
	}
	if err := r.flush(e.LR); err != nil {
		return false, err
	}
	e.Train = r.metrics()
	for _, s := range r.shards {
		s.meter.reset()
	}
	e.Time = time.Since(start)
	if name, ok := finite(e.Train); !ok {
		return false, r.notFinite(name, e.Train[name], number)
	}
	if r.validation != nil {
		if e.Validation, err = r.validate(); err != nil {
			return false, err
		}
	}
	done = r.judge(&e)
	r.report.Epochs = append(r.report.Epochs, e)
	r.show("", e.Train)
	r.show("validation ", e.Validation)
	r.draw(float64(number+1), "", e.Train)
	r.draw(float64(number+1), "validation ", e.Validation)
	if r.saver != nil {
		if err := r.saver.save(r, number+1, 0); err != nil {
			return false, err
		}
	}
	for _, f := range r.t.callbacks {
		if err := f(&e); err != nil {
			return false, err
		}
	}
	return done, nil
}

// afterStep tells callbacks and, now and then, reads the metrics.
func (r *run) afterStep(epoch, index int, lr float64) error {
	if r.progress != nil {
		r.progress.Add(1)
	}
	if len(r.t.afterStep) > 0 && r.pending == 0 {
		info := &Step{Epoch: epoch, Index: index, Steps: r.report.Steps, LR: lr}
		for _, s := range r.shards {
			info.Models = append(info.Models, s.model)
		}
		for _, f := range r.t.afterStep {
			if err := f(info); err != nil {
				return err
			}
		}
	}
	if r.t.logEvery <= 0 || (index+1)%r.t.logEvery != 0 {
		return nil
	}
	now := r.metrics()
	if name, ok := finite(now); !ok {
		return r.notFinite(name, now[name], epoch)
	}
	r.show("", now)
	r.draw(float64(epoch)+float64(index+1)/float64(r.train.Len()), "", now)
	return nil
}

// metrics reads the means of the epoch so far from all devices.
func (r *run) metrics() map[string]float64 {
	meters := make([]*meter, len(r.shards))
	for i, s := range r.shards {
		meters[i] = s.meter
	}
	return merge(meters)
}

func (r *run) notFinite(name string, v float64, epoch int) error {
	where := ""
	if r.saver != nil {
		where = "; the checkpoints in " + r.t.checkpoints + " are from before"
	}
	return fmt.Errorf("%w: the %s is %v in epoch %d; try a smaller learning rate, ClipGradients, or look for bad values in the data%s", ErrNotFinite, name, v, epoch+1, where)
}

// validate measures the model on the validation data.
func (r *run) validate() (map[string]float64, error) {
	nn.Eval(r.model)
	defer nn.Train(r.model)
	m := newMeter()
	defer m.reset()
	for batch, err := range r.validation.Epoch(0) {
		if err != nil {
			return nil, err
		}
		locus.Scoped(func(s *locus.Scope) {
			locus.NoGrad(func() {
				for name, v := range validationStep(r.model, place(s, batch.Fields, r.devices[0])) {
					m.add(name, v, batch.Size)
				}
			})
		})
	}
	return m.read(), nil
}

// judge compares an epoch with the best before it; it reports whether it is time
// to stop.
func (r *run) judge(e *Epoch) (stop bool) {
	v, ok := e.Validation[r.t.monitor]
	if !ok || math.IsNaN(v) {
		return false
	}
	if r.t.monitor != "loss" {
		v = -v // more is better
	}
	if r.report.BestEpoch < 0 || v < r.bestValue {
		e.Best = true
		r.bestValue, r.report.BestEpoch, r.sinceBest = v, e.Number, 0
		if r.t.keepBest {
			r.best = nn.TreeOf(r.model).Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.CopyTo(locus.CPU()) })
		}
		return false
	}
	r.sinceBest++
	if r.t.patience > 0 && r.sinceBest >= r.t.patience {
		r.report.Stopped = fmt.Sprintf("no better %s for %d epochs", r.t.monitor, r.sinceBest)
		return true
	}
	return false
}

func (r *run) prepareBoard() {
	if r.t.progress != nil {
		r.progress = board.NewProgress(r.t.progress, board.Plan{Epochs: r.t.maxEpochs, Steps: int64(r.train.Len())})
	}
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

func (r *run) draw(x float64, prefix string, values map[string]float64) {
	if r.t.board == nil {
		return
	}
	for k, v := range values {
		r.t.board.Draw(prefix+k, x, v, 1)
	}
}

// close ends what shows the run and lets go of what it held.
func (r *run) close() {
	if r.progress != nil {
		r.progress.Close()
	}
	if r.t.board != nil {
		r.t.board.Flush()
	}
	for _, s := range r.shards {
		s.meter.reset()
	}
	nn.Eval(r.model)
}
