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

// Learn a line from examples with noise: y = 2 x₀ - 3.4 x₁ + 4.2.
func ExampleRegressor() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 1000, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Linear(2, 1)
	trainer := train.New(train.MaxEpochs(3), train.LearningRate(0.1))
	if _, err := trainer.Fit(train.Regressor(net), train.Data{Train: set, BatchSize: 32}); err != nil {
		log.Fatal(err)
	}
	w := locus.ToSlice[float32](net.Weight.Value().Detach())
	fmt.Printf("%.1f %.1f %.1f\n", w[0], w[1], net.Bias.Value().Item())
	// Output:
	// 2.0 -3.4 4.2
}

// Tell handwritten digits apart. Fit measures loss and accuracy on the validation data after
// each epoch.
func ExampleClassifier() {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10, nn.WithKey(locus.NewKey(1)))))
	trainer := train.New(train.MaxEpochs(3), train.LearningRate(0.5))
	report, err := trainer.Fit(model, train.Data{Train: learn, Validation: test, BatchSize: 64})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(report.Epochs), report.Last().Validation["accuracy"] > 0.85)
	// Output:
	// 3 true
}

// A model with a loss, a metric and an optimizer of one's own choice.
func ExampleSupervised() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 200, []float32{2}, 1, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	model := &train.Supervised{
		Net: nn.Linear(1, 1),
		LossFunc: func(y, target *locus.Tensor) *locus.Tensor {
			return locus.HuberLoss(y, target, 1, locus.ReduceMean)
		},
		MetricsFunc: func(y, target *locus.Tensor) map[string]*locus.Tensor {
			return map[string]*locus.Tensor{"within_0.1": y.Sub(target).Abs().Lt(0.1).Cast(locus.Float32).Mean()}
		},
		Optimizer: func(params []nn.Entry) *optim.Optimizer {
			return optim.Adam(params, 0.1, optim.AdamOptions{})
		},
	}
	report, err := train.New(train.MaxEpochs(20)).Fit(model, train.Data{Train: set, BatchSize: 20})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Hyperparameters["optimizer"], report.Last().Train["within_0.1"])
	// Output:
	// Adam 1
}

// A trainer describes itself. It has no state of a run: use it as often as you like.
func ExampleNew() {
	trainer := train.New(
		train.MaxEpochs(10),
		train.Devices(locus.CPU()),
		train.Seed(7),          // the order of the examples
		train.Accumulate(4),    // one step for the gradients of four batches
		train.ClipGradients(1), // to this norm
		train.EarlyStopping(3), // epochs that are no better
	)
	fmt.Println(trainer)
	// Output:
	// trainer: 10 epochs, on [cpu], seed 7, a step every 4 batches, gradients of norm at most 1, monitors loss (Lowest), stops after 3 epochs without improvement
}

// A batch that does not fit into memory: the gradients of four batches of 25 are added up
// before each step, which is then that of a batch of 100.
func ExampleAccumulate() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 200, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.MaxEpochs(3), train.Accumulate(4))
	report, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 25})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Steps, "steps")
	// Output:
	// 6 steps
}

// A rate that is far too high, tamed: gradients are scaled down to a norm of at most 1, so
// that no step is longer than the learning rate.
func ExampleClipGradients() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{200, -340}, 420, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Linear(2, 1, nn.WithInit(nn.Constant(0)), nn.WithBiasInit(nn.Constant(0)))
	trainer := train.New(train.ClipGradients(1), train.LearningRate(3))
	if _, err := trainer.Fit(train.Regressor(net), train.Data{Train: set, BatchSize: 100}); err != nil {
		log.Fatal(err)
	}
	step := locus.GlobalNorm([]*locus.Tensor{net.Weight.Value().Detach(), net.Bias.Value().Detach()})
	fmt.Printf("%.1f\n", step.Item())
	// Output:
	// 3.0
}

// Repeat a run: the same seed gives the same order of examples, and the same key the same
// first weights.
func ExampleSeed() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	run := func(seed uint64) float64 {
		net := nn.Linear(2, 1, nn.WithKey(locus.NewKey(2)))
		report, err := train.New(train.Seed(seed)).Fit(train.Regressor(net), train.Data{Train: set, BatchSize: 10})
		if err != nil {
			log.Fatal(err)
		}
		return report.Last().Train["loss"]
	}
	fmt.Println(run(7) == run(7), run(7) == run(8))
	// Output:
	// true false
}

// How batches are made: four goroutines make them ahead of the steps, in the order of the
// dataset, and a last batch that is smaller is left out.
func ExampleData() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	report, err := train.New().Fit(train.Regressor(nn.Linear(2, 1)),
		train.Data{Train: set, BatchSize: 30, Workers: 4, InOrder: true, DropLast: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Steps, "steps,", report.Last().Examples, "examples")
	// Output:
	// 3 steps, 90 examples
}

// Go through the data three times.
func ExampleMaxEpochs() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	report, err := train.New(train.MaxEpochs(3)).
		Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range report.Epochs {
		fmt.Println(e.Number, e.Examples)
	}
	// Output:
	// 0 100
	// 1 100
	// 2 100
}
