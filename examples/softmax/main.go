// Command softmax trains softmax regression, the smallest classifier of images:
// one linear layer from pixels to a score for each class. The embedded digits are
// the data unless -data says otherwise.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"

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

	// The layer returns scores; the classifier's loss, cross-entropy, holds the softmax.
	net := nn.Sequential(nn.Flatten(), nn.LazyLinear(len(learn.Classes)))

	trainer := train.New(choices.Options(train.LearningRate(0.1))...)
	report, err := trainer.Fit(train.Classifier(net), train.Data{Train: learn, Validation: test, BatchSize: 128})
	if err != nil {
		return nil, err
	}
	fmt.Fprint(w, report)
	return report, nil
}
