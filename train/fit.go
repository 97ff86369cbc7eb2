package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Fit trains a model. The model ends up on the first of the trainer's devices.
// Whatever goes wrong is returned as an error, with the report of what was done:
// also a panic in the model, in a callback or in the data.
func (t *Trainer) Fit(model Model, d Data) (*Report, error) {
	return t.FitContext(context.Background(), model, d)
}

// FitContext is Fit that ends when ctx does, with its error, after the step at
// hand; where there are checkpoints, one is written first.
func (t *Trainer) FitContext(ctx context.Context, model Model, d Data) (*Report, error) {
	set := t.settings()
	devices, err := set.check(model, d)
	if err != nil {
		set.abort(err)
		return nil, err
	}
	r := &run{set: set, ctx: ctx, data: d, devices: devices, model: model, ranks: newRanks(ctx, set),
		report: &Report{Devices: devices, BestEpoch: -1, PeakMemory: map[string]int64{}}}
	if r.ranks != nil {
		own := *set // the first rank has a say in it
		if r.set = &own; !r.ranks.first() {
			own.board, own.progress = nil, nil
		}
	}
	defer r.close() // also where a callback ends this goroutine
	start := time.Now()
	err = guard.Call(r.fit)
	r.ranks.abort(err)
	r.over = true
	r.report.Time = time.Since(start)
	r.report.Uncompiled = r.why.String()
	r.explain()
	for _, d := range devices {
		r.report.PeakMemory[d.String()] = d.MemoryStats().Peak
	}
	if errors.Is(err, ErrStop) {
		r.report.Stopped, err = "a callback asked for it", nil
	}
	return r.report, withStack(err)
}

// withStack adds to the error of a panic where it was.
func withStack(err error) error {
	var panicked *guard.Panic
	if errors.As(err, &panicked) {
		return fmt.Errorf("train: %w\n\n%s", err, panicked.Stack)
	}
	return err
}

// run is one call of Fit.
type run struct {
	set     *settings
	ctx     context.Context
	data    Data
	devices []locus.Device
	model   Model
	sound   bool // the model can be walked
	report  *Report

	train, validation *data.Loader
	replicas          []*replica
	opt               *optim.Optimizer
	scaler            *optim.Scaler   // float16 only
	grads             []*locus.Tensor // sums over the batches that wait for a step, on the first device; nil if there are none
	pending           int             // the number of these batches
	waits             waits           // of the update that is under way
	apply             *compiled       // the update by gradients that wait
	why               reason          // some of it is not compiled
	schedule          optim.Schedule
	plateau           *optim.Plateau // nil without
	average           *optim.Average // nil without
	baseLR            float64
	progress          *board.Progress
	curves            *curves // nil without a board
	saver             *saver
	monitor           monitor
	evaluation        *evaluation         // of the validation data; nil before the first
	epoch             Epoch               // the one that is under way
	startBatch        int                 // where a resumed run goes on in it
	own               []string            // names of hyperparameters that are not the trainer's
	ranks             *ranks              // nil without
	order             []int               // positions of parameters in which their gradients last became final; nil before
	layouts           map[string]layout   // of buckets, by the positions of what is trained
	received          []*locus.Tensor     // values of parameters that other ranks update; nil without ShardOptimizer
	reduced           []*locus.Tensor     // the memory of the gradients that wait, where they are sums over ranks
	stopping          bool                // a callback of this rank asked to stop
	locals            []*collective.Group // of the devices, where they meet in the middle of a step
	mirrors           []*collective.Group // of the devices, for sums of gradients and what the first one gives the others
	apart             bool                // devices draw each for itself, as in the checkpoint of an earlier version
	over              bool                // fit has ended
	profiler          profiler
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
	for r.epoch.Number < r.set.maxEpochs {
		done, err := r.runEpoch()
		if err != nil {
			return err
		}
		if done {
			break
		}
		r.epoch, r.startBatch = Epoch{Number: r.epoch.Number + 1}, 0
	}
	r.finish()
	return r.endProfile(true)
}

// prepareData makes the loaders, which put batches on the devices ahead of the steps.
func (r *run) prepareData() error {
	o := data.Options{BatchSize: r.data.BatchSize, Shuffle: !r.data.InOrder, DropLast: r.data.DropLast, Workers: r.data.Workers,
		Key: locus.NewKey(r.set.seed)}
	o.Rank, o.Ranks = r.ranks.of()
	if len(r.devices) == 1 {
		o.Device = r.devices[0]
	} else {
		o.Devices = r.devices
	}
	var err error
	if r.train, err = data.NewLoader(r.data.Train, o); err != nil {
		return err
	}
	if r.data.Validation != nil {
		if r.validation, err = r.data.inOrder(r.data.Validation, r.set.seed, r.devices, r.ranks); err != nil {
			return err
		}
	}
	return nil
}

// prepareModel puts the model on the first device, lets lazy layers see an input,
// makes its optimizer, and replicas on the others.
func (r *run) prepareModel() error {
	if err := nn.Check(r.model); err != nil { // rather than train less than was meant
		return err
	}
	r.sound = true
	nn.To(r.model, r.devices[0])
	if err := r.warmUp(); err != nil {
		return err
	}
	nn.Train(r.model)
	for _, f := range r.set.prepareModel {
		if err := f(r.model); err != nil {
			return err
		}
	}
	if err := r.warmUp(); err != nil { // of layers that PrepareModel has put in
		return err
	}
	nn.Train(r.model)
	r.opt = configure(r.set, r.model)
	for i, d := range r.devices {
		m := r.model
		if i > 0 {
			m = nn.CopyTo(r.model, d)
		}
		p := newReplica(r.set, m, d)
		p.choose(r.opt.Params())
		r.replicas = append(r.replicas, p)
	}
	for _, e := range r.opt.Params() {
		r.report.Parameters += e.Value().Len()
	}
	if r.set.precision == locus.Float16 && r.set.lowered {
		r.scaler = optim.NewScaler(r.devices[0])
	}
	r.baseLR = r.opt.LR()
	r.schedule = r.set.schedule
	if r.schedule == nil {
		r.schedule = optim.Fixed()
	}
	if o := r.set.plateau; o != nil {
		own := *o
		own.Highest = r.set.better == Highest
		r.plateau = optim.NewPlateau(own)
	}
	if r.set.averaged {
		r.average = optim.NewAverage(r.replicas[0].params, r.set.average)
		r.average.Update() // where training begins
	}
	r.shard()
	if err := r.meet(); err != nil {
		return err
	}
	if err := r.syncNorms(); err != nil {
		return err
	}
	r.compile()
	r.report.Hyperparameters = r.describe()
	if err := r.checkMonitor(); err != nil {
		return err
	}
	for _, p := range r.replicas[1:] {
		if err := p.drawAs(r.replicas[0]); err != nil {
			return err
		}
	}
	if err := r.openCheckpoints(); err != nil {
		return err
	}
	return r.begin()
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
	nn.Eval(r.model)
	return r.tryOne(r.data.Train, Training, func(fields []*locus.Tensor) { trainingStep(r.model, fields, nil) })
}

// tryOne calls f with the first example of a dataset, without gradients.
func (r *run) tryOne(set data.Dataset, stage Stage, f func(fields []*locus.Tensor)) error {
	fields, err := set.Batch([]int{0}, locus.NewKey(r.set.seed))
	if err != nil {
		return err
	}
	defer freeAll(fields)
	s := locus.NewScope()
	defer s.Close()
	locus.NoGrad(func() {
		var prepared []*locus.Tensor
		if prepared, err = r.set.prepare(s, r.devices[0], Batch{Stage: stage, Size: 1, Whole: 1, Fields: fields}); err == nil {
			f(prepared)
		}
	})
	return err
}

func (r *run) prepareBoard() {
	r.curves = newCurves(r.set)
	r.curves.restore(r.report.Epochs)
	if r.set.progress != nil || r.set.board != nil {
		r.progress = board.NewProgress(r.set.progress, board.Plan{Epochs: r.set.maxEpochs, Steps: int64(r.train.Len())})
		r.why.tell = func(text string) { r.progress.Printf("train: not compiled: %s", text) }
	}
	if r.set.board != nil {
		r.set.board.Track(r.progress)
	}
}

// close ends what shows the run and releases what it held.
func (r *run) close() {
	r.dropProfile()
	if !r.over {
		r.ranks.abort(errors.New("the goroutine that trains has ended"))
	}
	if r.progress != nil {
		r.progress.Close()
	}
	r.curves.end(len(r.report.Epochs))
	r.dropGrads()
	r.unsync()
	for _, p := range r.replicas {
		p.reset()
		p.see(0, 0)
	}
	if r.evaluation != nil {
		r.evaluation.close()
	}
	if r.sound {
		nn.Eval(r.model)
	}
}
