// Command linear learns the same linear model as linear-scratch with what the
// packages have: a layer, and a trainer.
package main

import (
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
	if err := run(os.Stdout, locus.TryGPU()); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, device locus.Device) error {
	set, err := data.SyntheticRegression(locus.NewKey(1), 1000, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		return err
	}

	layer := nn.LazyLinear(1)
	trainer := train.New(train.MaxEpochs(5), train.LearningRate(0.1), train.Devices(device))
	report, err := trainer.Fit(train.Regressor(layer), train.Data{Train: set, BatchSize: 32})
	if err != nil {
		return err
	}

	fmt.Fprint(w, report)
	fmt.Fprintln(w, "weight", layer.Weight.Value().Flatten())
	fmt.Fprintln(w, "bias  ", layer.Bias.Value())
	return nil
}
