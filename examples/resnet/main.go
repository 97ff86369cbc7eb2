// Command resnet trains a small residual network (He et al., 2016) to classify
// images, with what such networks are usually trained with: momentum, weight decay,
// a learning rate that rises and falls, and images that are moved and mirrored at
// random. The embedded digits are the data unless -data says otherwise.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

const batchSize = 128

func main() {
	choices := train.NewFlags(flag.CommandLine, 10)
	width := flag.Int("width", 32, "channels of the first stage; each stage has twice as many as the one before")
	flag.Parse()
	if _, err := run(os.Stdout, choices, *width); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, choices *train.Flags, width int) (*train.Report, error) {
	learn, test, err := choices.Open()
	if err != nil {
		return nil, err
	}
	moved := []data.Transform{data.RandomCrop(1)}
	if choices.Data == "fashion-mnist" { // a mirrored shoe is a shoe, a mirrored 3 is no digit
		moved = append(moved, data.RandomFlip(0.5))
	}

	model := train.Classifier(resnet(width, len(learn.Classes)))
	model.Optimizer = func(params []nn.Entry) *optim.Optimizer {
		return optim.SGD(params, 0.1, optim.SGDOptions{Momentum: 0.9, Nesterov: true, WeightDecay: 5e-4})
	}
	steps := int64(choices.Epochs * (learn.Len() / batchSize))
	trainer := train.New(choices.Options(train.Schedule(optim.OneCycle(steps, 0.3, 25, 1e4)))...)
	report, err := trainer.Fit(model, train.Data{
		Train:      data.Map(learn, moved...),
		Validation: test,
		BatchSize:  batchSize,
		DropLast:   true,
		Workers:    4,
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprint(w, report)
	return report, nil
}

// resnet has three stages of two residual blocks. From stage to stage there are
// twice as many channels of images half as high and wide.
func resnet(width, classes int) *nn.SequentialLayer {
	return nn.Sequential(
		nn.LazyConv2D(width, 3, locus.ConvOptions{Padding: 1}, nn.NoBias()), nn.BatchNorm(width), nn.ReLU(),
		nn.ResNetBlock(width, width, 1), nn.ResNetBlock(width, width, 1),
		nn.ResNetBlock(width, 2*width, 2), nn.ResNetBlock(2*width, 2*width, 1),
		nn.ResNetBlock(2*width, 4*width, 2), nn.ResNetBlock(4*width, 4*width, 1),
		nn.GlobalAvgPool(),
		nn.LazyLinear(classes))
}
