package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/cmd/locus/internal/job"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/train"
)

// boardHere as an address means any free port of this machine.
const boardHere = "localhost"

// trainFlags are the flags of locus train that need a second look.
type trainFlags struct {
	job.Config
	device, precision, out, board string
	gpus                          int
	asJSON, compile               bool
	accept                        []string
	explain, profile              string
	place                         collective.Place // of a rank; see join
}

func (a *app) train() *cobra.Command {
	f := &trainFlags{}
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a network: on handwritten digits in seconds, or on your choice",
		Long: `Trains a network and keeps it. Without flags that is a small network on the
handwritten digits that are part of the program.

` + models() + `

Data: digits (part of the program), fashion-mnist and mnist (files: from the
system, from --data-dir, or fetched with --download), or a folder of your PNG
and JPEG images in which each class has a folder of its own. If it has folders
train and test, with the classes in them, those are used; else a fifth of all
images is kept to test with. Or a CSV file with a heading: the column --target
is learned, as classes or as numbers; of the others numbers are normalized, and
words become categories.

The folder --out gets the weights with their hyperparameters, a report with the
curves, their points (curves.csv), and the checkpoints. Ctrl-C ends training
after the step at hand, keeps a checkpoint and exits with code 130; --resume
goes on from there. A request to end (SIGTERM) and a terminal that closes
(SIGHUP) do the same, with 143 and 129.

Started as several ranks, by locus launch, mpirun, srun or the like, the ranks
train one network together: --batch is that of all ranks, each takes a GPU of
its machine, and rank 0 writes what is kept.`,
		Example: `  locus train
  locus train --model lenet --epochs 20 --board
  locus train --data fashion-mnist --download --model lenet --device gpu:0
  locus train --data pictures --model lenet --size 48
  locus train --data flowers.csv --target species
  locus train --data houses.csv --target price --patience 20 --epochs 200
  locus train --virtual-gpus 2 --gpus 2
  locus launch -n 2 locus train
  locus train --resume`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runTrain(c, f) },
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.Data, "data", "digits", "what to learn: "+strings.Join(model.DataNames, ", ")+", a folder of images, or a CSV file")
	fl.StringVar(&f.Target, "target", "", "the column of a CSV file to learn (the last)")
	fl.StringVar(&f.Task, "task", model.Auto, "learn that column as classes or as numbers; auto chooses")
	fl.IntVar(&f.Size, "size", model.DefaultSize, "resize the images of a folder to this many pixels per side")
	fl.StringVar(&f.Source.Folder, "data-dir", "", "folder with the data's files")
	fl.BoolVar(&f.Source.Download, "download", false, "fetch the data's files if they are missing")
	fl.IntVar(&f.Limit, "limit", 0, "use only this many examples")
	fl.StringVar(&f.Model, "model", "mlp", "the network: "+strings.Join(model.Names, ", "))
	fl.StringVar(&f.device, "device", "", "where to train, such as cpu, gpu:1 or gpu:0,gpu:1 (gpu:0 if there is one, else cpu)")
	fl.IntVar(&f.gpus, "gpus", 0, "train on the first `N` GPUs")
	fl.IntVar(&f.Epochs, "epochs", 0, "passes over the data (20 for digits, 10 otherwise and for resnet)")
	fl.IntVar(&f.Batch, "batch", 0, "examples per step (64 for digits, 256 otherwise)")
	fl.Float64Var(&f.LR, "lr", 0, "learning rate (0 uses the model's default)")
	fl.StringVar(&f.Optimizer, "optimizer", "adam", "adam, or sgd with momentum")
	fl.Float64Var(&f.Clip, "clip", 0, "scale gradients down to at most this norm")
	fl.IntVar(&f.Patience, "patience", 0, "stop when the test accuracy (or RMSE) has not improved for `N` epochs")
	fl.StringVar(&f.precision, "precision", "float32", "of the network's arithmetic: float32, bf16 or fp16")
	fl.BoolVar(&f.SyncBatchNorm, "sync-batch-norm", false, "take the statistics of batch normalization over all devices and ranks, as one device would")
	fl.BoolVar(&f.ShardOptimizer, "shard-optimizer", false, "divide the optimizer's state among the ranks, which saves memory; the results are the same")
	fl.BoolVar(&f.compile, "compile", true, "run steps as compiled programs; the results are the same")
	fl.StringVar(&f.explain, "explain", "", "print what the compiled steps became; `HOW` is short, full, or a file to write the full text to")
	fl.Lookup("explain").NoOptDefVal = explainShort
	fl.StringVar(&f.profile, "profile", "", "write a trace of some steps to `FILE` (for ui.perfetto.dev; a name that ends in .svg makes a picture), and print what took the time")
	fl.Uint64Var(&f.Seed, "seed", 0, "seed of all random numbers")
	fl.StringVar(&f.out, "out", "", `folder for weights, report and checkpoints (runs/DATA-MODEL, with a number if there is one; "none" keeps nothing)`)
	fl.StringVar(&f.Checkpoints, "checkpoints", "", `folder for checkpoints (OUT/checkpoints; "none" writes none)`)
	fl.BoolVar(&f.Resume, "resume", false, "go on from the last checkpoint, with the flags of that run where none are given")
	fl.StringSliceVar(&f.accept, "accept", nil, "let these flags differ from those of the run that --resume goes on with, such as lr,batch")
	fl.StringVar(&f.board, "board", "", "show the curves live on a web page, at `ADDRESS` if one is given")
	fl.Lookup("board").NoOptDefVal = boardHere
	jsonFlag(c, &f.asJSON)
	complete(c, "data", completeWords(model.DataNames...))
	complete(c, "task", completeWords(model.Tasks...))
	complete(c, "model", completeWords(model.Names...))
	complete(c, "device", completeDevices)
	complete(c, "optimizer", completeWords(job.Optimizers...))
	complete(c, "precision", completeWords("float32", "bf16", "fp16"))
	return c
}

func models() string {
	var parts []string
	for _, n := range model.Names {
		parts = append(parts, fmt.Sprintf("%s (%s)", n, model.About[n]))
	}
	return strings.Join(text.Wrap("Models: "+strings.Join(parts, ", ")+".", 78), "\n")
}

// check turns flags into a configuration, or returns which of them is invalid.
func (f *trainFlags) check() error {
	oneOf := func(flag, v string, all []string) error {
		if !slices.Contains(all, v) {
			return usagef("--%s %s: there is no such %s; there are %s%s", flag, v, flag, strings.Join(all, ", "), meant(v, all))
		}
		return nil
	}
	if err := errors.Join(f.checkData(oneOf), oneOf("task", f.Task, model.Tasks), oneOf("model", f.Model, model.Names), oneOf("optimizer", f.Optimizer, job.Optimizers)); err != nil {
		return err
	}
	if f.Batch == 0 {
		switch {
		case f.Data == "digits":
			f.Batch = 64
		case model.IsFolder(f.Data), model.IsTable(f.Data):
			f.Batch = 32
		default:
			f.Batch = 256
		}
	}
	if f.Epochs == 0 {
		f.Epochs = 10
		if f.Data == "digits" && f.Model != "resnet" {
			f.Epochs = 20
		}
	}
	switch {
	case f.Epochs < 1:
		return usagef("--epochs %d: want at least one", f.Epochs)
	case f.Batch < 1:
		return usagef("--batch %d: want at least one example", f.Batch)
	case !(f.LR >= 0) || f.LR > 1e6:
		return usagef("--lr %v: want a learning rate that is positive and finite, or 0", f.LR)
	case !(f.Clip >= 0):
		return usagef("--clip %v: want a norm that is not negative", f.Clip)
	case f.Limit < 0 || f.Patience < 0:
		return usagef("--limit and --patience must not be negative")
	case f.device != "" && f.gpus > 0:
		return usagef("--device and --gpus both say where to train: choose one of them")
	}
	switch strings.ToLower(f.precision) {
	case "float32", "f32", "fp32":
	case "bf16", "bfloat16":
		f.Precision = locus.BFloat16
	case "fp16", "f16", "float16":
		f.Precision = locus.Float16
	default:
		return usagef("--precision %s: want float32, bf16 or fp16%s", f.precision, meant(f.precision, []string{"float32", "bfloat16", "float16"}))
	}
	return errors.Join(f.folders(), f.places())
}

// checkData takes a name, or a folder, which it makes absolute: weights are used
// elsewhere.
func (f *trainFlags) checkData(oneOf func(flag, v string, all []string) error) (err error) {
	switch {
	case f.Target != "" && !model.IsTable(f.Data):
		return usagef("--target %s is a column of a CSV file; --data %s is not a CSV file", f.Target, f.Data)
	case f.Task != model.Auto && !model.IsTable(f.Data):
		return usagef("--task %s is for the column of a CSV file; --data %s is not a CSV file", f.Task, f.Data)
	case model.IsTable(f.Data):
		f.Data, err = filepath.Abs(f.Data)
		return err
	case !model.IsFolder(f.Data) && (strings.EqualFold(filepath.Ext(f.Data), ".csv") || strings.ContainsRune(f.Data, filepath.Separator)):
		return usagef("--data %s: there is no such file or folder", f.Data)
	case !model.IsFolder(f.Data):
		return oneOf("data", f.Data, model.DataNames)
	}
	if f.Size < 4 || f.Size > 1024 {
		return usagef("--size %d: want 4 to 1024 pixels per side", f.Size)
	}
	f.Data, err = filepath.Abs(f.Data)
	return err
}

func (f *trainFlags) folders() error {
	switch f.out {
	case "none":
		f.Out = ""
	case "":
		f.Out = freeFolder(filepath.Join("runs", strings.TrimSuffix(filepath.Base(f.Data), ".csv")+"-"+f.Model), f.Resume)
	default:
		f.Out = f.out
	}
	switch {
	case f.Checkpoints == "none" || f.Checkpoints == "" && f.Out == "":
		f.Checkpoints = ""
	case f.Checkpoints == "":
		f.Checkpoints = filepath.Join(f.Out, "checkpoints")
	}
	if f.Resume && f.Checkpoints == "" {
		return usagef("--resume needs the folder of the checkpoints: give --checkpoints or --out")
	}
	return nil
}

func (f *trainFlags) places() (err error) {
	switch {
	case f.gpus != 0:
		f.Devices, err = numGPUs(f.gpus)
	case f.device != "":
		f.Devices, err = parseDevices("device", f.device)
	default:
		f.Devices = []locus.Device{f.deviceHere()}
	}
	return err
}

func (a *app) runTrain(c *cobra.Command, f *trainFlags) (err error) {
	defer func() { err = errors.Join(err, f.leave(err)) }()
	if err := f.join(c.Context()); err != nil {
		return err
	}
	a.quiet(f.Group)
	alone := f.Group == nil || f.Group.Rank() == 0 // nobody else says the same
	if f.Resume {
		if err := f.asBefore(c); err != nil {
			return err
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	f.Eager = !f.compile
	f.Version = strings.TrimSpace(version())
	f.Note = func(format string, args ...any) {
		if !alone {
			return
		}
		a.err.Println(a.err.Style(text.Dim, "note: "+fmt.Sprintf(format, args...)))
	}
	switch {
	case !alone:
	case a.err.Terminal:
		f.Progress = a.rawErr
	default:
		f.Epoch = a.epochLines(f.Epochs)
	}
	if f.board != "" && alone {
		f.Board = &board.Board{}
		url, err := f.Board.Serve(strings.TrimSuffix(f.board, boardHere))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Board.Close()) }()
		a.err.Println("curves at " + a.err.Style(text.Bold, url))
	}
	if !alone { // rank 0 explains and profiles; the files are its own
		f.explain, f.profile = "", ""
	}
	tell := a.watchSteps(f)
	if !f.asJSON {
		where := job.List(f.Devices)
		if f.Group != nil {
			where += fmt.Sprintf(", with %d ranks", f.Group.Size())
		}
		a.out.Printf("Training %s on %s, on %s.\n", f.Model, f.Data, where)
	}
	r, err := job.Run(c.Context(), f.Config)
	if err := tell(); err != nil {
		return err
	}
	if err != nil {
		if !alone && errors.Is(err, context.Canceled) {
			return codeError{err, ExitInterrupted} // rank 0 says what is left
		}
		return a.trainFailed(r, err)
	}
	if f.asJSON {
		return a.json(trainJSON(r))
	}
	a.showRun(r)
	if f.board != "" && a.out.Terminal && a.out.Err() == nil {
		a.err.Println("\nThe curves stay on the page until Ctrl-C.")
		<-c.Context().Done()
	}
	return nil
}

// trainFailed says what is left of a run that did not end well.
func (a *app) trainFailed(r *job.Result, err error) error {
	if r == nil || !errors.Is(err, context.Canceled) {
		err = inFlags(err)
		if errors.Is(err, train.ErrNotFinite) && r != nil && r.Checkpoint == "" {
			return fmt.Errorf("%w (no checkpoint was written yet)", err)
		}
		if r != nil && r.Checkpoint != "" && (errors.Is(err, locus.ErrDeviceLost) || errors.Is(err, collective.ErrRank) || errors.Is(err, collective.ErrTimeout)) {
			return fmt.Errorf("%w\n  fix: the last checkpoint in %s is whole: go on with --resume", err, r.Checkpoint)
		}
		return err
	}
	msg := "interrupted; nothing was kept"
	if r.Checkpoint != "" {
		msg = fmt.Sprintf("interrupted; the run is in %s and goes on with --resume", r.Checkpoint)
	}
	a.err.Println(a.err.Style(text.Yellow, "locus:") + " " + msg)
	return err
}

func (a *app) showRun(r *job.Result) {
	o := a.out
	head, rows := job.EpochRows(r.Report)
	t := &text.Table{Head: head, Rows: rows, Right: map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true, 6: true}, Shrink: -1}
	if o.Width < 100 { // room for what matters most
		for i, row := range t.Rows {
			t.Rows[i] = []string{row[0], row[1], row[2], row[3], row[4], row[6], strings.Replace(row[7], "best so far", "*", 1)}
		}
		t.Head = []string{head[0], head[1], head[2], head[3], head[4], head[6], ""}
	}
	o.Println()
	o.Table(t, 0)
	o.Println()
	for _, f := range r.Summary() {
		o.Printf("%s %s\n", text.Pad(o.Style(text.Dim, f[0]), 22), f[1])
	}
	for _, f := range [][2]string{{"weights", r.Weights}, {"report", r.Page}, {"curves", r.Curves}} {
		if f[1] != "" {
			o.Printf("%s %s\n", text.Pad(o.Style(text.Dim, f[0]), 22), f[1])
		}
	}
	if r.Weights != "" {
		o.Println()
		o.Text("Next: " + o.Style(text.Bold, "locus predict "+r.Weights))
	}
}

// trainJSON is a run for programs.
func trainJSON(r *job.Result) any {
	type epoch struct {
		Epoch    int                `json:"epoch"`
		Train    map[string]float64 `json:"train"`
		Test     map[string]float64 `json:"test"`
		LR       float64            `json:"lr"`
		Seconds  float64            `json:"seconds"`
		Examples int                `json:"examples"`
		Best     bool               `json:"best"`
	}
	epochs := []epoch{}
	for _, e := range r.Report.Epochs {
		epochs = append(epochs, epoch{e.Number + 1, e.Train, e.Validation, e.LR, e.Time.Seconds(), e.Examples, e.Number == r.Report.BestEpoch})
	}
	return map[string]any{"run": r.Card, "epochs": epochs, "parameters": r.Report.Parameters, "devices": r.Report.Devices,
		"seconds": r.Report.Time.Seconds(), "peak_memory": r.Report.PeakMemory, "stopped": r.Report.Stopped, "weights": r.Weights, "report": r.Page, "curves": r.Curves}
}
