package train

import (
	"errors"
	"fmt"
	"io"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/optim"
)

// Data is what a model is trained and validated on.
type Data struct {
	Train      data.Dataset
	Validation data.Dataset // may be nil
	BatchSize  int
	Workers    int  // goroutines that make batches; 0 means one
	DropLast   bool // leave out a last batch that is smaller
	InOrder    bool // do not shuffle
}

// Trainer trains models. Its zero value trains for one epoch on the CPU.
type Trainer struct {
	maxEpochs   int
	gpus        int
	devices     []locus.Device
	clip        float64
	lr          float64
	schedule    optim.Schedule
	accumulate  int
	precision   locus.DType
	seed        uint64
	logEvery    int
	board       *board.Board
	progress    io.Writer
	callbacks   []func(*Epoch) error
	afterStep   []func(*Step) error
	patience    int
	monitor     string
	keepBest    bool
	checkpoints string
	keep        int
	resume      bool
}

// Option changes a trainer.
type Option func(*Trainer)

// New makes a trainer.
func New(opts ...Option) *Trainer {
	t := &Trainer{maxEpochs: 1, lr: 0.1, accumulate: 1, logEvery: 50, monitor: "loss", keep: 3}
	for _, o := range opts {
		o(t)
	}
	return t
}

// MaxEpochs is the number of passes over the data.
func MaxEpochs(n int) Option { return func(t *Trainer) { t.maxEpochs = n } }

// NumGPUs trains on the first n GPUs, mirrored if n is more than one. That they
// exist is checked: for the CPU where there is none, use Devices(locus.TryGPU()).
func NumGPUs(n int) Option { return func(t *Trainer) { t.gpus = n } }

// Devices trains on the given devices.
func Devices(d ...locus.Device) Option { return func(t *Trainer) { t.devices = d } }

// ClipGradients scales gradients down to at most this norm.
func ClipGradients(norm float64) Option { return func(t *Trainer) { t.clip = norm } }

// LearningRate is that of the default optimizer, plain SGD; 0.1 otherwise.
func LearningRate(lr float64) Option { return func(t *Trainer) { t.lr = lr } }

// Schedule changes the optimizer's learning rate from step to step.
func Schedule(s optim.Schedule) Option { return func(t *Trainer) { t.schedule = s } }

// Accumulate adds the gradients of so many batches up before a step.
func Accumulate(batches int) Option { return func(t *Trainer) { t.accumulate = batches } }

// Precision computes the network in another floating-point type than its
// parameters have: with BFloat16, parameters and inputs are rounded to it for each
// step, while the parameters themselves, their updates and the loss stay float32.
// With Float16, whose range is small, the loss is scaled so that gradients do not
// vanish, and steps that overflow are left out.
func Precision(d locus.DType) Option { return func(t *Trainer) { t.precision = d } }

// Seed is where all that the trainer draws (the order of the examples) comes from.
func Seed(seed uint64) Option { return func(t *Trainer) { t.seed = seed } }

// LogEvery is the number of steps between two readings of the metrics for board,
// progress and the check for NaN; the end of an epoch always reads.
func LogEvery(steps int) Option { return func(t *Trainer) { t.logEvery = steps } }

// Board draws the metrics.
func Board(b *board.Board) Option { return func(t *Trainer) { t.board = b } }

// Progress shows a progress bar.
func Progress(w io.Writer) Option { return func(t *Trainer) { t.progress = w } }

// AfterEpoch calls f at the end of every epoch; [ErrStop] ends training well, any
// other error ends it with that error.
func AfterEpoch(f func(*Epoch) error) Option {
	return func(t *Trainer) { t.callbacks = append(t.callbacks, f) }
}

// AfterStep calls f after every step, like [AfterEpoch].
func AfterStep(f func(*Step) error) Option {
	return func(t *Trainer) { t.afterStep = append(t.afterStep, f) }
}

// Monitor names the validation metric that EarlyStopping and KeepBest look at:
// "loss" unless said otherwise. Of a loss the smallest is best, of anything else
// the largest.
func Monitor(metric string) Option { return func(t *Trainer) { t.monitor = metric } }

// EarlyStopping ends training when the monitored metric has not become better for
// so many epochs.
func EarlyStopping(patience int) Option { return func(t *Trainer) { t.patience = patience } }

// KeepBest gives the model, at the end, the parameters of its best epoch.
func KeepBest() Option { return func(t *Trainer) { t.keepBest = true } }

// Checkpoints saves the run's state in a folder after every epoch, and when it is
// interrupted, and keeps the last few.
func Checkpoints(folder string, keep int) Option {
	return func(t *Trainer) { t.checkpoints, t.keep = folder, keep }
}

// Resume goes on from the last checkpoint, if there is one.
func Resume() Option { return func(t *Trainer) { t.resume = true } }

// ErrStop is what a callback returns to end training.
var ErrStop = errors.New("train: stop")

// ErrNotFinite is the error of a run whose loss or another metric became NaN or
// infinite.
var ErrNotFinite = errors.New("train: not a finite number")

// check finds the devices and refuses options that cannot be.
func (t *Trainer) check(d Data) ([]locus.Device, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("train: "+format+": %w", append(args, locus.ErrArgument)...)
	}
	switch {
	case d.Train == nil:
		return nil, bad("Data.Train is nil: there is nothing to train on")
	case t.maxEpochs < 1:
		return nil, bad("MaxEpochs(%d); train for at least one epoch", t.maxEpochs)
	case t.accumulate < 1:
		return nil, bad("Accumulate(%d); a step needs at least one batch", t.accumulate)
	case t.clip < 0:
		return nil, bad("ClipGradients(%v); a norm is not negative", t.clip)
	case t.gpus < 0 || t.gpus > 0 && len(t.devices) > 0:
		return nil, bad("NumGPUs(%d) with %d devices; choose one of the two", t.gpus, len(t.devices))
	case t.precision != 0 && !t.precision.IsFloat():
		return nil, bad("Precision(%s); want a floating-point type", t.precision)
	case (t.patience > 0 || t.keepBest) && d.Validation == nil:
		return nil, bad("EarlyStopping and KeepBest look at the validation data; Data.Validation is nil")
	case t.resume && t.checkpoints == "":
		return nil, bad("Resume without Checkpoints; say in which folder they are")
	}
	if t.gpus > locus.NumGPUs() {
		err := fmt.Errorf("train: NumGPUs(%d), but there are %d; visible are %v; use Devices(locus.TryGPU()) to fall back to the CPU, or LOCUS_VIRTUAL_GPUS=%d for virtual ones: %w",
			t.gpus, locus.NumGPUs(), visible(), t.gpus, locus.ErrDevice)
		return nil, err
	}
	devices := t.devices
	for i := range t.gpus {
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
