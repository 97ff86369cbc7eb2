package train_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

// Stop when validation no longer improves, and keep the weights of the best epoch.
func ExampleEarlyStopping() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.5)
	if err != nil {
		log.Fatal(err)
	}
	parts, err := data.Split(set, locus.NewKey(2), 80, 20)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.MaxEpochs(1000), train.EarlyStopping(3), train.KeepBest())
	report, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)),
		train.Data{Train: parts[0], Validation: parts[1], BatchSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped:", report.Stopped != "") // it says why
	fmt.Println("epochs after the best:", len(report.Epochs)-1-report.BestEpoch)
	// Output:
	// stopped: true
	// epochs after the best: 3
}

// Look at the accuracy, not at the loss: of the best epoch the weights are kept.
func ExampleMonitor() {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	set := train.Data{Train: learn, Validation: test, BatchSize: 128}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
	trainer := train.New(train.MaxEpochs(3), train.Monitor("accuracy", train.Highest), train.KeepBest())
	report, err := trainer.Fit(model, set)
	if err != nil {
		log.Fatal(err)
	}
	result, err := trainer.Validate(model, set)
	if err != nil {
		log.Fatal(err)
	}
	best := report.Epochs[report.BestEpoch].Validation["accuracy"]
	fmt.Println(result.Values["accuracy"] == best)
	// Output:
	// true
}

// Measure the model after training as it was in its best epoch.
func ExampleKeepBest() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	d := train.Data{Train: set, Validation: set, BatchSize: 10}
	model := train.Regressor(nn.Linear(2, 1))
	// The third epoch is spoiled by a rate that is too high.
	spoil := func(step int64) float64 {
		if step < 20 {
			return 1
		}
		return 40
	}
	trainer := train.New(train.MaxEpochs(3), train.Schedule(spoil), train.KeepBest())
	report, err := trainer.Fit(model, d)
	if err != nil {
		log.Fatal(err)
	}
	result, err := trainer.Validate(model, d)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.BestEpoch, result.Values["loss"] == report.Epochs[1].Validation["loss"])
	// Output:
	// 1 true
}

// Stop when the model is good enough: a callback returns ErrStop.
func ExampleAfterEpoch() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 200, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	enough := train.AfterEpoch(func(e *train.Epoch) error {
		if e.Train["loss"] < 0.01 {
			return train.ErrStop
		}
		return nil
	})
	report, err := train.New(train.MaxEpochs(1000), enough).
		Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10})
	fmt.Println(err, len(report.Epochs) < 1000, report.Last().Train["loss"] < 0.01)
	// Output:
	// <nil> true true
}

// End a run from outside, after the step at hand: with Ctrl-C, say, by signal.NotifyContext.
func ExampleTrainer_FitContext() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 200, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	five := train.AfterStep(func(s *train.Step) error {
		if s.Steps == 5 {
			cancel()
		}
		return nil
	})
	report, err := train.New(train.MaxEpochs(1000), five).
		FitContext(ctx, train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10})
	fmt.Println(errors.Is(err, context.Canceled), report.Steps)
	// Output:
	// true 5
}
