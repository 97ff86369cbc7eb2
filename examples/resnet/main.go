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
	flag.Parse()
	if _, err := run(os.Stdout, choices); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, choices *train.Flags) (*train.Report, error) {
	learn, test, err := choices.Open()
	if err != nil {
		return nil, err
	}
	moved := []data.Transform{data.RandomCrop(1)}
	if choices.Data == "fashion-mnist" { // a mirrored shoe is a shoe, a mirrored 3 is no digit
		moved = append(moved, data.RandomFlip(0.5))
	}

	model := train.Classifier(resnet(len(learn.Classes)))
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

// resnet has a stage of two residual blocks for each number of channels; all but
// the first halve the image.
func resnet(classes int) *nn.SequentialLayer {
	channels := []int{32, 64, 128}
	net := nn.Sequential(
		nn.LazyConv2D(channels[0], 3, locus.ConvOptions{Padding: 1}, nn.NoBias()),
		nn.BatchNorm(channels[0]),
		nn.ReLU())
	in, stride := channels[0], 1
	for _, out := range channels {
		net.Add(nn.ResNetBlock(in, out, stride), nn.ResNetBlock(out, out, 1))
		in, stride = out, 2
	}
	return net.Add(nn.GlobalAvgPool(), nn.LazyLinear(classes))
}
