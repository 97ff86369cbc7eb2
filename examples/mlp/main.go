// Command mlp trains a multilayer perceptron to classify images: one hidden layer
// of 256 units between pixels and scores. The embedded digits are the data unless
// -data says otherwise.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

func main() {
	choices := train.NewFlags(flag.CommandLine, 30)
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

	net := nn.Sequential(
		nn.Flatten(),
		nn.LazyLinear(256), nn.ReLU(),
		nn.LazyLinear(len(learn.Classes)))

	model := train.Classifier(net)
	model.Optimizer = func(params []nn.Entry) *optim.Optimizer {
		return optim.Adam(params, 0.003, optim.AdamOptions{})
	}
	report, err := train.New(choices.Options()...).
		Fit(model, train.Data{Train: learn, Validation: test, BatchSize: 32})
	if err != nil {
		return nil, err
	}
	fmt.Fprint(w, report)
	return report, nil
}
