// Command lenet trains a convolutional network in the manner of LeNet-5 (LeCun et
// al., 1998): sigmoids, average pooling, and first values after Xavier Glorot, with
// which a learning rate as high as 0.9 works. The embedded digits are the data
// unless -data says otherwise.
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
	"github.com/locusml/locus/train"
)

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
	activation, rate, size, batch := nn.Sigmoid, 0.9, 28, 64
	if choices.Data == "digits" {
		// So few images give so few steps that sigmoids would not learn a thing.
		activation, rate, size, batch = nn.ReLU, 0.2, 16, 16
	}
	resize := data.Resize(size, size) // the digits have 8×8 pixels, too few for two convolutions

	net := lenet(activation, len(learn.Classes))
	fmt.Fprintln(w, nn.Summarize(net, locus.Zeros(1, 1, size, size)))

	trainer := train.New(choices.Options(train.LearningRate(rate))...)
	report, err := trainer.Fit(train.Classifier(net), train.Data{
		Train:      data.Map(learn, resize),
		Validation: data.Map(test, resize),
		BatchSize:  batch,
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprint(w, report)
	return report, nil
}

func lenet(activation func() nn.Module, classes int) *nn.SequentialLayer {
	xavier := nn.WithInit(nn.XavierUniform())
	halve := func() nn.Module { return nn.AvgPool2D(2, locus.PoolOptions{}) }
	return nn.Sequential(
		nn.LazyConv2D(6, 5, locus.ConvOptions{Padding: 2}, xavier), activation(), halve(),
		nn.LazyConv2D(16, 5, locus.ConvOptions{}, xavier), activation(), halve(),
		nn.Flatten(),
		nn.LazyLinear(120, xavier), activation(),
		nn.LazyLinear(84, xavier), activation(),
		nn.LazyLinear(classes, xavier))
}
