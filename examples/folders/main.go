// Command folders trains a convolutional network on pictures in folders, one for
// each class, with what such training usually has: augmentation, a learning rate
// that warms up and falls when nothing gets better, gradients of several batches
// before each step, bfloat16, and averaged weights. It draws the curves and a
// confusion matrix.
//
//	go run ./examples/folders -data FOLDER -out OUT
//
// Without -data it draws pictures of shapes to learn from.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

func main() {
	log.SetFlags(0)
	folder := flag.String("data", "", "a folder with a folder of PNG or JPEG pictures for each class; without it pictures are drawn")
	out := flag.String("out", "shapes", "where the model and the pictures of the run go")
	epochs := flag.Int("epochs", 30, "passes over the pictures")
	flag.Parse()
	if *folder == "" {
		*folder = filepath.Join(*out, "data")
		if err := drawShapes(*folder, 160); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := run(os.Stdout, *folder, *out, *epochs); err != nil {
		log.Fatal(err)
	}
}

const (
	size       = 32 // pixels per side
	batchSize  = 16
	accumulate = 2 // batches before a step
)

func run(w io.Writer, folder, out string, epochs int) (*train.Report, error) {
	all, err := data.ImageFolder(folder, data.ImageOptions{Height: size, Width: size})
	if err != nil {
		return nil, err
	}
	fifth := all.Len() / 5
	parts, err := data.Split(all, locus.NewKey(0), -1, fifth, fifth)
	if err != nil {
		return nil, err
	}
	// The means of the channels are those of the pictures to learn from.
	scaler, err := data.NewScaler(parts[0], 0)
	if err != nil {
		return nil, err
	}
	sets := train.Data{
		Train:      data.Map(parts[0], data.RandomFlip(0.5), data.RandomCrop(2), scaler.Transform(0)),
		Validation: data.Map(parts[1], scaler.Transform(0)),
		Test:       data.Map(parts[2], scaler.Transform(0)),
		BatchSize:  batchSize,
		Workers:    runtime.GOMAXPROCS(0), // files are read as batches are made
	}

	net := newNet(len(all.Classes))
	model := train.Classifier(net)
	model.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		return optim.AdamW(p, 0.004, optim.AdamOptions{WeightDecay: 0.01}).
			WithGroups(optim.Group{Match: optim.Named("bias"), WeightDecay: new(0.0)})
	}
	curves := &board.Board{}
	if err := curves.SetAxes("", board.Axes{Title: "Pictures in folders", XLabel: "epoch"}); err != nil {
		return nil, err
	}
	stepsOfAnEpoch := int64(parts[0].Len() / (batchSize * accumulate))
	trainer := train.New(
		train.MaxEpochs(epochs),
		train.Devices(locus.TryGPU()),
		train.Precision(locus.BFloat16),
		train.Accumulate(accumulate),
		train.ClipGradients(1),
		train.Schedule(optim.Warmup(2*stepsOfAnEpoch, optim.Fixed())),
		train.Plateau(optim.PlateauOptions{Patience: 3, Factor: 0.5, Cooldown: 1}),
		train.AverageWeights(0.95),
		train.Monitor("accuracy", train.Highest),
		train.KeepBest(),
		train.Measure(metric.ConfusionMatrix(len(all.Classes))),
		train.Board(curves))
	report, err := trainer.Fit(model, sets)
	if err != nil {
		return nil, err
	}
	scores, err := trainer.Test(model, sets)
	if err != nil {
		return nil, err
	}
	best := report.Epochs[report.BestEpoch]
	fmt.Fprintf(w, "%d pictures of %d classes to learn from, %d to choose by, %d to test with\n", parts[0].Len(), len(all.Classes), parts[1].Len(), parts[2].Len())
	fmt.Fprintf(w, "%d epochs in %.1f s, %d steps, %.0f pictures/s\n", len(report.Epochs), report.Time.Seconds(), report.Steps, report.Throughput())
	fmt.Fprintf(w, "best epoch %d: accuracy %.3f\n", best.Number+1, best.Validation["accuracy"])
	fmt.Fprintf(w, "on pictures never seen: accuracy %.3f\n", scores.Values["accuracy"])
	return report, keep(w, out, all.Classes, scores, curves, net, scaler)
}

// newNet is three convolutions with normalization, each on a picture half as high
// and wide.
func newNet(classes int) *nn.SequentialLayer {
	net := nn.Sequential()
	for i, channels := range []int{16, 32, 64} {
		net.Add(nn.LazyConv2D(channels, 3, locus.ConvOptions{Padding: 1}, nn.NoBias(), nn.WithKey(locus.NewKey(uint64(i)))),
			nn.BatchNorm(channels), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{}))
	}
	return net.Add(nn.GlobalAvgPool(), nn.Flatten(), nn.LazyLinear(classes, nn.WithKey(locus.NewKey(9))))
}

// keep writes the model, the confusion matrix and the curves.
func keep(w io.Writer, out string, classes []string, scores metric.Result, curves *board.Board, net nn.Module, scaler *data.Scaler) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	matrix := board.Matrix{Title: "Pictures never seen", Values: scores.Tables["confusion_matrix"], Rows: classes, Columns: classes,
		YLabel: "shown", XLabel: "predicted", ByRow: true, HideZeros: true}
	if err := matrix.Save(filepath.Join(out, "confusion.png")); err != nil {
		return err
	}
	if err := curves.Save(filepath.Join(out, "curves.png")); err != nil {
		return err
	}
	texts := map[string]string{}
	for name, v := range map[string]any{"classes": classes, "scaler": scaler} {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		texts[name] = string(text)
	}
	path := filepath.Join(out, "model.safetensors")
	if err := nn.SaveWith(path, net, texts); err != nil {
		return err
	}
	fmt.Fprintf(w, "model, curves and confusion matrix are in %s\n", out)
	return nil
}
