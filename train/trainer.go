package train

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train/metric"
)

// Data is what a model is trained, measured and used on: each of the trainer's
// methods looks at its own dataset, the others may be nil.
type Data struct {
	Train      data.Dataset // for Fit
	Validation data.Dataset // for Fit after each epoch, if there is one, and for Validate
	Test       data.Dataset // for Test
	Predict    data.Dataset // for Predict; it needs no targets
	BatchSize  int
	Workers    int  // goroutines that make batches; 0 means one
	DropLast   bool // leave out a last batch that is smaller
	InOrder    bool // do not shuffle
}

// Trainer trains models. Its zero value is what [New] returns without options: it
// trains for one epoch on the CPU. A trainer holds no state of a run and may be
// used any number of times, from several goroutines too.
type Trainer struct {
	set *settings // nil: the defaults
}

// settings are what options choose.
type settings struct {
	maxEpochs  int
	gpus       int
	devices    []locus.Device
	clip       float64
	lr         float64
	schedule   optim.Schedule
	accumulate int
	precision  locus.DType
	lowered    bool // precision was asked for
	seed       uint64
	logEvery   int
	board      *board.Board
	boardRun   string // the run's name there
	progress   io.Writer
	afterEpoch []func(*Epoch) error
	afterStep  []func(*Step) error

	prepareBatch []func(*Batch) error
	prepareModel []func(Model) error
	beforeEpoch  []func(*Epoch) error
	beforeStep   []func(*Step) error
	patience     int
	stopEarly    bool // patience was asked for
	monitor      string
	better       Direction
	monitored    bool // monitor was asked for
	keepBest     bool
	checkpoints  string
	save         bool // checkpoints were asked for
	keep         int
	resume       bool
	measures     []metric.Metric
	record       Hyperparameters
	accept       []string // names of hyperparameters that may differ at Resume
	plateau      *optim.PlateauOptions
	average      float64
	averaged     bool // average was asked for
	eager        bool // nothing is compiled
	recompute    bool // compiled steps compute cheap values again
	explain      io.Writer
	summary      io.Writer
	profile      *profileSettings
	group        *collective.Group
	ranked       bool // group was asked for
	syncNorm     bool
	shard        bool
	missing      bool // an option was a zero value
}

func defaults() *settings {
	return &settings{maxEpochs: 1, lr: 0.1, accumulate: 1, logEvery: 50, monitor: "loss", better: Lowest, keep: 3}
}

// Option changes a trainer.
type Option struct{ apply func(*settings) }

// New makes a trainer. Invalid options are an error of Fit.
func New(opts ...Option) *Trainer {
	t := &Trainer{set: defaults()}
	for _, o := range opts {
		if o.apply == nil {
			t.set.missing = true
			continue
		}
		o.apply(t.set)
	}
	return t
}

// settings returns the trainer's options; those of the zero value are the defaults.
func (t *Trainer) settings() *settings {
	if t == nil || t.set == nil {
		return defaults()
	}
	return t.set
}

// MaxEpochs sets the number of passes over the data.
func MaxEpochs(n int) Option { return Option{func(s *settings) { s.maxEpochs = n }} }

// NumGPUs trains on the first n GPUs, mirrored if n is more than one. That they
// exist is checked: for the CPU where there is none, use Devices(locus.TryGPU()).
func NumGPUs(n int) Option { return Option{func(s *settings) { s.gpus = n }} }

// Devices trains on the given devices.
func Devices(d ...locus.Device) Option {
	return Option{func(s *settings) { s.devices = slices.Clone(d) }}
}

// ClipGradients scales gradients down to at most this norm.
func ClipGradients(norm float64) Option { return Option{func(s *settings) { s.clip = norm }} }

// LearningRate sets the rate of the default optimizer, plain SGD. Without it the
// rate is 0.1.
func LearningRate(lr float64) Option { return Option{func(s *settings) { s.lr = lr }} }

// Schedule changes the optimizer's learning rate from step to step.
func Schedule(f optim.Schedule) Option { return Option{func(s *settings) { s.schedule = f }} }

// Plateau lowers the learning rate when the monitored metric (see [Monitor]) stops
// improving, in addition to what a [Schedule] does. Monitor says which of its
// values are better. What it remembers is part of checkpoints.
func Plateau(o optim.PlateauOptions) Option {
	return Option{func(s *settings) { s.plateau = &o }}
}

// AverageWeights keeps moving averages of the parameters, updated after every
// step: see optim.Average. The validation data is measured with them, [KeepBest]
// keeps them, and when Fit ends well they are the model's parameters. They are part
// of checkpoints; callbacks see the model as it is trained.
func AverageWeights(decay float64) Option {
	return Option{func(s *settings) { s.average, s.averaged = decay, true }}
}

// Accumulate adds up the gradients of the given number of batches before a step.
func Accumulate(batches int) Option { return Option{func(s *settings) { s.accumulate = batches }} }

// Precision computes the network in another floating-point type than its
// parameters have: with BFloat16, parameters and inputs are rounded to it for each
// step, while the parameters themselves, their updates and the loss stay float32.
// With Float16, whose range is small, the loss is scaled so that gradients do not
// vanish, and steps that overflow are skipped.
func Precision(d locus.DType) Option {
	return Option{func(s *settings) { s.precision, s.lowered = d, true }}
}

// Seed sets the seed of everything that the trainer draws (the order of the
// examples).
func Seed(seed uint64) Option { return Option{func(s *settings) { s.seed = seed }} }

// LogEvery sets the number of steps between two readings of the metrics for board,
// progress and the check for NaN. They are always read at the end of an epoch.
func LogEvery(steps int) Option { return Option{func(s *settings) { s.logEvery = steps }} }

// Board draws the run: a panel per metric with its curves "training" and
// "validation", one with examples per second, one with the most memory that the
// devices have needed so far, and the learning rate where a [Schedule] or
// [Plateau] changes it. Axes that the program has set stay as they are.
//
// With the name of the run, such as "lr 0.1", the curves of several runs can share
// a board.
func Board(b *board.Board, run ...string) Option {
	return Option{func(s *settings) { s.board, s.boardRun = b, strings.Join(run, " ") }}
}

// Progress shows a progress bar.
func Progress(w io.Writer) Option { return Option{func(s *settings) { s.progress = w }} }

// AfterEpoch calls f at the end of every epoch; [ErrStop] ends training well, any
// other error ends it with that error.
func AfterEpoch(f func(*Epoch) error) Option {
	return Option{func(s *settings) { s.afterEpoch = append(s.afterEpoch, f) }}
}

// AfterStep calls f after every step, like [AfterEpoch].
func AfterStep(f func(*Step) error) Option {
	return Option{func(s *settings) { s.afterStep = append(s.afterStep, f) }}
}

// Measure measures more of the model's outputs than its loss and [Metrics]: over
// all examples of an epoch, exactly, whatever the sizes of batches and the number of
// devices. In training they are of the outputs as the model was at each step, of
// models without a TrainingStep.
//
//	train.Measure(metric.TopK(5), metric.F1(10, metric.Macro), metric.ConfusionMatrix(10))
func Measure(metrics ...metric.Metric) Option {
	return Option{func(s *settings) { s.measures = append(s.measures, metrics...) }}
}

// EarlyStopping ends training when the monitored metric has not improved for the
// given number of epochs.
func EarlyStopping(patience int) Option {
	return Option{func(s *settings) { s.patience, s.stopEarly = patience, true }}
}

// KeepBest restores, at the end, the parameters of the model's best epoch.
func KeepBest() Option { return Option{func(s *settings) { s.keepBest = true }} }

// Checkpoints saves the run's state in a folder after every epoch, and when it is
// interrupted, and keeps the last few.
func Checkpoints(folder string, keep int) Option {
	return Option{func(s *settings) { s.checkpoints, s.keep, s.save = folder, keep, true }}
}

// Resume goes on from the last checkpoint, if there is one. A run with other
// hyperparameters than the checkpoint's, such as another batch size, is an
// [ErrChanged] that lists the differences; [AcceptChanges] accepts them by name.
// Only the options that say when a run ends may differ: MaxEpochs, EarlyStopping,
// KeepBest.
func Resume() Option { return Option{func(s *settings) { s.resume = true }} }

// ErrStop is what a callback returns to end training.
var ErrStop = errors.New("train: stop")

// ErrNotFinite is the error of a run whose loss or another metric became NaN or
// infinite.
var ErrNotFinite = errors.New("train: not a finite number")

// bad returns the error of an invalid argument.
func bad(format string, args ...any) error {
	return fmt.Errorf("train: "+format+": %w", append(args, locus.ErrArgument)...)
}

// check finds the devices and refuses what Fit cannot do.
func (s *settings) check(model Model, d Data) ([]locus.Device, error) {
	switch {
	case model == nil:
		return nil, bad("the model is nil")
	case d.Train == nil:
		return nil, bad("Data.Train is nil: there is nothing to train on")
	case d.Validation != nil && s.checkMeasures(model) != nil:
		return nil, s.checkMeasures(model)
	case s.watches() && d.Validation == nil:
		return nil, bad("EarlyStopping, KeepBest, Plateau and Monitor look at the validation data; Data.Validation is nil")
	}
	return s.checkOptions()
}

// watches reports whether anything depends on the monitored metric.
func (s *settings) watches() bool {
	return s.stopEarly || s.keepBest || s.monitored || s.plateau != nil
}

// checkMeasures refuses metrics of outputs that the trainer does not see.
func (s *settings) checkMeasures(model Model) error {
	if _, ok := model.(ValidationStepper); ok && len(s.measures) > 0 {
		return bad("Measure with a model that has a ValidationStep: the trainer does not see its outputs; count them there with a metric.Meter, or return them as means")
	}
	return nil
}

// checkOptions finds the devices and returns an error for invalid options.
func (s *settings) checkOptions() ([]locus.Device, error) {
	switch {
	case s.missing:
		return nil, bad("an option is a zero value; make options with the functions of this package")
	case s.ranked && s.group == nil:
		return nil, bad("Ranks without a group; make one with collective.Join or collective.Local")
	case s.maxEpochs < 1:
		return nil, bad("MaxEpochs(%d); train for at least one epoch", s.maxEpochs)
	case s.accumulate < 1:
		return nil, bad("Accumulate(%d); a step needs at least one batch", s.accumulate)
	case !(s.clip >= 0) || math.IsInf(s.clip, 0):
		return nil, bad("ClipGradients(%v); a norm is a number that is not negative", s.clip)
	case !(s.lr >= 0) || math.IsInf(s.lr, 0):
		return nil, bad("LearningRate(%v); want a number that is not negative", s.lr)
	case s.gpus < 0 || s.gpus > 0 && len(s.devices) > 0:
		return nil, bad("NumGPUs(%d) with %d devices; choose one of the two", s.gpus, len(s.devices))
	case s.lowered && !s.precision.IsFloat():
		return nil, bad("Precision(%s); want a floating-point type", s.precision)
	case s.stopEarly && s.patience < 1:
		return nil, bad("EarlyStopping(%d); wait for at least one epoch", s.patience)
	case s.better != Lowest && s.better != Highest:
		return nil, bad("Monitor(%q, %v); want train.Lowest or train.Highest", s.monitor, s.better)
	case s.save && s.checkpoints == "":
		return nil, bad("Checkpoints without a folder")
	case s.save && s.keep < 1:
		return nil, bad("Checkpoints that keep %d; keep at least one", s.keep)
	case len(s.accept) > 0 && !s.resume:
		return nil, bad("AcceptChanges without Resume")
	case s.resume && !s.save:
		return nil, bad("Resume without Checkpoints; say in which folder they are")
	case anyNil(s.afterEpoch), anyNil(s.afterStep), anyNil(s.beforeEpoch), anyNil(s.beforeStep), anyNil(s.prepareBatch), anyNil(s.prepareModel):
		return nil, bad("a callback is nil")
	}
	if err := s.profile.check(); err != nil {
		return nil, err
	}
	if s.ranked {
		var err error
		if e := locus.Try(func() { err = s.group.Err() }); e != nil || err != nil {
			return nil, cmp.Or(e, err)
		}
	}
	if s.averaged && !(s.average >= 0 && s.average < 1) {
		return nil, bad("AverageWeights(%v); want at least 0 and less than 1", s.average)
	}
	if s.plateau != nil {
		if err := s.plateau.Check(); err != nil {
			return nil, bad("Plateau: %v", err)
		}
	}
	if err := metric.Check(s.measures...); err != nil {
		return nil, fmt.Errorf("train: Measure: %w", err)
	}
	if s.gpus > locus.NumGPUs() {
		err := fmt.Errorf("train: NumGPUs(%d), but there are %d; visible are %v; use Devices(locus.TryGPU()) to fall back to the CPU, or LOCUS_VIRTUAL_GPUS=%d for virtual ones: %w",
			s.gpus, locus.NumGPUs(), visible(), s.gpus, locus.ErrDevice)
		return nil, err
	}
	devices := s.devices
	for i := range s.gpus {
		devices = append(devices, locus.GPU(i))
	}
	if len(devices) == 0 {
		devices = []locus.Device{locus.CPU()}
	}
	for i, d := range devices {
		if !d.Exists() {
			return nil, fmt.Errorf("train: %s does not exist; visible are %v: %w", d, visible(), locus.ErrDevice)
		}
		for _, e := range devices[:i] {
			if e == d && d.IsGPU() {
				return nil, fmt.Errorf("train: %s is named twice: %w", d, locus.ErrDevice)
			}
		}
	}
	return devices, nil
}

func visible() []locus.Device {
	var l []locus.Device
	for _, i := range locus.Devices() {
		l = append(l, i.Device)
	}
	return l
}
