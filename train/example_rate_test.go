package train_test

import (
	"fmt"
	"log"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// Rise over the first five steps, then go down along a cosine to the end of the run.
func ExampleSchedule() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	const epochs, stepsPerEpoch = 2, 10
	trainer := train.New(
		train.MaxEpochs(epochs),
		train.LearningRate(0.1),
		train.Schedule(optim.Warmup(5, optim.Cosine(epochs*stepsPerEpoch-5, 0))),
		train.AfterStep(func(s *train.Step) error {
			if s.Steps%5 == 1 {
				fmt.Printf("step %d: %.3f\n", s.Steps, s.LR)
			}
			return nil
		}),
	)
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// step 1: 0.020
	// step 6: 0.100
	// step 11: 0.075
	// step 16: 0.025
}

// Take the rate down to a tenth when the validation loss has not become better for two
// epochs. Here it cannot become better: the first rate is far too small.
func ExamplePlateau() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 40, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.MaxEpochs(5), train.LearningRate(1e-12), train.Plateau(optim.PlateauOptions{Factor: 0.1, Patience: 2}))
	report, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, Validation: set, BatchSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range report.Epochs {
		fmt.Printf("%.0e ", e.LR)
	}
	// Output:
	// 1e-12 1e-12 1e-12 1e-13 1e-13
}

// The rate of the trainer's own optimizer, plain SGD. A model that makes its optimizer itself
// decides about the rate: see Supervised.
func ExampleLearningRate() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 40, []float32{2}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	report, err := train.New(train.LearningRate(0.03)).
		Fit(train.Regressor(nn.Linear(1, 1)), train.Data{Train: set, BatchSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Hyperparameters["optimizer"], report.Last().LR)
	// Output:
	// SGD 0.03
}

// Average the weights over the last steps: with a high rate they jump about the best ones,
// and their mean is closer to it.
func ExampleAverageWeights() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 400, []float32{2, -3.4}, 4.2, 1)
	if err != nil {
		log.Fatal(err)
	}
	run := func(opts ...train.Option) float64 {
		net := nn.Linear(2, 1, nn.WithKey(locus.NewKey(2)))
		opts = append(opts, train.MaxEpochs(5), train.LearningRate(0.4))
		report, err := train.New(opts...).Fit(train.Regressor(net), train.Data{Train: set, Validation: set, BatchSize: 4})
		if err != nil {
			log.Fatal(err)
		}
		return report.Last().Validation["loss"]
	}
	fmt.Println(run(train.AverageWeights(0.98)) < run())
	// Output:
	// true
}
