// Package job trains one of the command's networks and keeps the result.
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
	"github.com/locusml/locus/weights/checkpoint"
)

// Config says what is trained, how, and where to.
type Config struct {
	Data      string
	Source    data.Source
	Limit     int    // of examples; 0: all
	Size      int    // of images of a folder, in pixels per side
	Target    string // the column of a table to learn; "": the last
	Task      string // what it is learned as: of model.Tasks
	Model     string
	Devices   []locus.Device
	Epochs    int
	Batch     int
	LR        float64 // 0: the model's own
	Optimizer string  // "adam" or "sgd"
	Clip      float64
	Patience  int
	Precision locus.DType // 0: float32
	Eager     bool        // steps are computed op by op, not as programs

	SyncBatchNorm  bool // statistics are those over all devices and ranks
	ShardOptimizer bool // each rank has a part of the optimizer's state

	Seed        uint64
	Checkpoints string // a folder; "": none
	Resume      bool
	Out         string // a folder; "": nothing is kept
	Version     string // of this program, for the records

	Explain  io.Writer                  // gets what became of the compiled steps; may be nil
	Summary  io.Writer                  // gets that in short; may be nil
	Profile  func(train.Profiled) error // gets a profile of some steps; may be nil
	Board    *board.Board               // may be nil
	Progress io.Writer                  // may be nil
	Epoch    func(train.Epoch)          // after every epoch; may be nil
	Group    *collective.Group          // of the ranks that train together; nil: this process alone
	Accept   []string                   // names of hyperparameters that may differ from the checkpoint's
	Note     func(format string, args ...any)
}

// Result is the result of a run.
type Result struct {
	Card   model.Card
	Report *train.Report
	// Final is the epoch that the network's parameters are from: the best. Chosen by
	// the test set, it looks better than it is, unless it is the last as well.
	Final  train.Epoch
	Chosen bool
	// Confusion counts, for every class of the test set, what it was predicted as;
	// nil where numbers were learned, or too many classes.
	Confusion [][]float64
	Weights   string // files; "" where nothing was kept
	Page      string
	Curves    string
	// Checkpoint is the folder with the state of a run that was interrupted or
	// failed, if it has any.
	Checkpoint string
}

// Optimizers lists them.
var Optimizers = []string{"adam", "sgd"}

// Run trains. If ctx ends it does so after the step at hand, with a checkpoint
// where those are kept.
func Run(ctx context.Context, c Config) (r *Result, err error) {
	set, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if !c.first() {
		c.Out = "" // rank 0 keeps the result
	}
	if err := set.Limit(c.Limit); err != nil {
		return nil, err
	}
	if set.Encoder != nil && c.Model != "softmax" && c.Model != "mlp" {
		return nil, fmt.Errorf("--model %s is for images; a table takes softmax or mlp", c.Model)
	}
	if set.Encoder != nil {
		c.Task = model.Card{Scaler: set.Scaler}.Task()
	}
	if c.LR == 0 {
		c.LR = model.LearningRate[c.Model]
		if c.Optimizer == "sgd" {
			c.LR = 0.1
		}
	}
	net, err := model.Build(c.Model, set.Input, set.Outputs(), c.Seed)
	if err != nil {
		return nil, err
	}
	r = &Result{Card: model.Card{Model: c.Model, Data: c.Data, Input: set.Input, Classes: set.Train.Classes, Hyper: c.hyper(), Made: c.Version, Encoder: set.Encoder, Scaler: set.Scaler, Target: c.Target}}
	if err := c.folders(); err != nil {
		return nil, err
	}
	learner := train.Classifier(net)
	if set.Scaler != nil {
		learner = train.Regressor(net)
	}
	learner.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		if c.Optimizer == "sgd" {
			return optim.SGD(p, c.LR, optim.SGDOptions{Momentum: 0.9})
		}
		return optim.Adam(p, c.LR, optim.AdamOptions{})
	}
	if c.Board == nil {
		c.Board = &board.Board{} // for the curves in the report
		defer func() { err = errors.Join(err, c.Board.Close()) }()
	}
	if err := c.axes(); err != nil {
		return nil, err
	}
	if err := c.log(); err != nil {
		return nil, err
	}
	var others checkpoint.Entry // of an earlier run, which this one does not continue
	if !c.Resume {
		others = newest(c.Checkpoints)
	}
	r.Report, err = train.New(append(c.options(set.Scaler), c.writeCard(r.Card))...).FitContext(ctx, learner, train.Data{Train: set.Train, Validation: set.Test, BatchSize: c.Batch, Workers: workers(set)})
	if err != nil {
		if last := newest(c.Checkpoints); last.Number > 0 && (last.Number != others.Number || !last.Saved.Equal(others.Saved)) {
			r.Checkpoint = c.Checkpoints
		}
		return r, err
	}
	if n := len(set.Test.Classes); n > 1 && n <= maxConfusion && c.Out != "" {
		scores, err := train.New(train.Devices(c.Devices...), train.Measure(metric.ConfusionMatrix(n))).
			TestContext(ctx, learner, train.Data{Test: set.Test, BatchSize: c.Batch})
		if err != nil {
			return r, err
		}
		r.Confusion = scores.Tables["confusion_matrix"]
	}
	return r, c.keep(r, net)
}

// first reports whether this process writes what is kept.
func (c *Config) first() bool { return c.Group == nil || c.Group.Rank() == 0 }

// open reads the data: rank 0 before the others, who then find what it fetched.
func (c *Config) open(ctx context.Context) (set model.Set, err error) {
	o := model.Options{Source: c.Source, Size: c.Size, Target: c.Target, Task: c.Task}
	if c.Group == nil {
		return model.OpenData(c.Data, o)
	}
	if c.first() {
		if set, err = model.OpenData(c.Data, o); err != nil {
			return set, err
		}
	}
	if err := c.Group.Barrier(ctx); err != nil || c.first() {
		return set, err
	}
	return model.OpenData(c.Data, o)
}

// maxConfusion is how many classes a confusion matrix in a report can have.
const maxConfusion = 40

// workers is how many goroutines make batches: images are read from files.
func workers(set model.Set) int {
	if set.Own {
		return runtime.GOMAXPROCS(0)
	}
	return 0
}

// rmse is the root of the mean squared error in the units of what is learned.
func rmse(s *data.Scaler) metric.Metric {
	unit := s.Std()[0]
	return metric.Func("rmse", func(output, target *locus.Tensor) []*locus.Tensor {
		d := output.Cast(locus.Float64).Sub(target.Cast(locus.Float64))
		return []*locus.Tensor{d.Square().Sum(), d.OnesLike().Sum()}
	}, func(sums [][]float64) float64 { return unit * math.Sqrt(sums[0][0]/sums[1][0]) })
}

func (c *Config) options(scaler *data.Scaler) []train.Option {
	o := []train.Option{train.MaxEpochs(c.Epochs), train.Devices(c.Devices...), train.Seed(c.Seed), train.Board(c.Board), train.KeepBest()}
	if c.Group != nil {
		o = append(o, train.Ranks(c.Group))
	}
	if scaler != nil {
		o = append(o, train.Measure(rmse(scaler)), train.Monitor("rmse", train.Lowest))
	} else {
		o = append(o, train.Monitor("accuracy", train.Highest))
	}
	if c.Progress != nil {
		o = append(o, train.Progress(c.Progress), train.LogEvery(10))
	}
	if c.Clip > 0 {
		o = append(o, train.ClipGradients(c.Clip))
	}
	if c.Patience > 0 {
		o = append(o, train.EarlyStopping(c.Patience))
	}
	if c.Precision != 0 {
		o = append(o, train.Precision(c.Precision))
	}
	if c.SyncBatchNorm {
		o = append(o, train.SyncBatchNorm())
	}
	if c.ShardOptimizer {
		o = append(o, train.ShardOptimizer())
	}
	if c.Eager {
		o = append(o, train.Compile(false))
	}
	if c.Explain != nil {
		o = append(o, train.Explain(c.Explain))
	}
	if c.Summary != nil {
		o = append(o, train.Summary(c.Summary))
	}
	if c.Profile != nil {
		o = append(o, train.Profile(profileAfter, profileSteps, c.Profile))
	}
	if c.Checkpoints != "" {
		o = append(o, train.Checkpoints(c.Checkpoints, 3))
	}
	if c.Resume {
		o = append(o, train.Resume())
		if len(c.Accept) > 0 {
			o = append(o, train.AcceptChanges(c.Accept...))
		}
	}
	if c.Epoch != nil {
		o = append(o, train.AfterEpoch(func(e *train.Epoch) error { c.Epoch(*e); return nil }))
	}
	return o
}

// A profile is of a few steps, behind those that trace, compile and load.
const (
	profileAfter = 20
	profileSteps = 3
)

// hyper is what a run can be repeated with.
func (c *Config) hyper() map[string]any {
	precision := "float32"
	if c.Precision != 0 {
		precision = c.Precision.String()
	}
	h := map[string]any{"epochs": c.Epochs, "batch": c.Batch, "lr": c.LR, "optimizer": c.Optimizer, "precision": precision, "seed": c.Seed, "devices": List(c.Devices)}
	if c.Group != nil {
		h["ranks"] = c.Group.Size()
	}
	if c.Clip > 0 {
		h["clip"] = c.Clip
	}
	if c.SyncBatchNorm {
		h["sync-batch-norm"] = true
	}
	if c.ShardOptimizer {
		h["shard-optimizer"] = true
	}
	if c.Patience > 0 {
		h["patience"] = c.Patience
	}
	if c.Target != "" {
		h["target"] = c.Target
	}
	if model.IsTable(c.Data) {
		h["task"] = c.Task
	}
	if model.IsFolder(c.Data) {
		h["size"] = c.Size
	}
	if c.Limit > 0 {
		h["limit"] = c.Limit
	}
	return h
}

// folders makes them, and tells of checkpoints that are there already.
func (c *Config) folders() error {
	if c.Out != "" {
		if _, err := os.Stat(filepath.Join(c.Out, WeightsFile)); err == nil && !c.Resume {
			c.Note("the weights of an earlier run in %s will be replaced", c.Out)
		}
		if err := os.MkdirAll(c.Out, 0o777); err != nil {
			return err
		}
	}
	if c.Checkpoints == "" {
		return nil
	}
	there := hasCheckpoint(c.Checkpoints)
	switch {
	case c.Resume && !there:
		c.Note("no checkpoint in %s yet: starting from the beginning", c.Checkpoints)
	case !c.Resume && there:
		c.Note("starting from the beginning; --resume goes on from the checkpoints in %s", c.Checkpoints)
	}
	return os.MkdirAll(c.Checkpoints, 0o777)
}

// writeCard writes the run's card next to its checkpoints when the first epoch
// begins: a run that is refused, because it does not go with the checkpoints, must
// not change theirs.
func (c *Config) writeCard(card model.Card) train.Option {
	written := c.Checkpoints == "" || !c.first()
	return train.BeforeEpoch(func(*train.Epoch) error {
		if written {
			return nil
		}
		written = true
		return model.WriteCard(filepath.Join(c.Checkpoints, model.CardFile), card)
	})
}

// WeightsFile is the name of a run's weights in its folder.
const WeightsFile = "weights.safetensors"

// Taken reports whether a folder holds a run: weights or checkpoints.
func Taken(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, WeightsFile))
	return err == nil || hasCheckpoint(filepath.Join(folder, "checkpoints"))
}

func hasCheckpoint(folder string) bool { return newest(folder).Number > 0 }

// newest returns the newest checkpoint in a folder, the zero value if there is none.
func newest(folder string) (last checkpoint.Entry) {
	if _, err := os.Stat(folder); err != nil {
		return last
	}
	d, err := checkpoint.Open(folder, 0)
	if err != nil {
		return last
	}
	if whole, _, err := d.List(); err == nil && len(whole) > 0 {
		last = whole[len(whole)-1]
	}
	return last
}

// LogFile is the name of the file with every point of a run's curves.
const LogFile = "curves.csv"

// log writes the curves' points as they come, so that a run can be looked at and
// compared with others, whatever becomes of it.
func (c *Config) log() error {
	if c.Out == "" {
		return nil
	}
	path := filepath.Join(c.Out, LogFile)
	if c.Resume && c.Checkpoints != "" && hasCheckpoint(c.Checkpoints) {
		if err := c.Board.Load(path, ""); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	} else if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return c.Board.LogCSV(path)
}

func (c *Config) axes() error {
	return c.Board.SetAxes("", board.Axes{Title: fmt.Sprintf("%s on %s", c.Model, c.Data), XLabel: "epoch"})
}

// keep writes the weights and the report.
func (c *Config) keep(r *Result, net nn.Module) error {
	// Nothing that differs between equal runs: equal weights make equal files.
	r.Card.Result = map[string]any{"epochs": len(r.Report.Epochs), "steps": r.Report.Steps}
	r.Final = best(r.Report)
	r.Chosen = r.Final.Number != r.Report.Last().Number
	for k, v := range r.Final.Validation {
		r.Card.Result["test_"+k] = v
	}
	if c.Out == "" {
		return nil
	}
	c.Board.Flush()
	r.Weights = filepath.Join(c.Out, WeightsFile)
	r.Page = filepath.Join(c.Out, "report.html")
	r.Curves = filepath.Join(c.Out, "curves.png")
	return errors.Join(model.Save(r.Weights, net, r.Card), c.Board.Save(r.Curves), r.save(c))
}

// best is the one with the highest accuracy, or the lowest RMSE, on the test set.
func best(r *train.Report) train.Epoch {
	for _, e := range r.Epochs {
		if e.Number == r.BestEpoch {
			return e
		}
	}
	return r.Last()
}
