package train_test

import (
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

// Draw two runs on one board, a panel for each metric. board.Serve shows it while they run.
func ExampleBoard() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	var b board.Board
	defer b.Close()
	for _, lr := range []float64{0.1, 0.01} {
		trainer := train.New(train.MaxEpochs(2), train.LearningRate(lr), train.Board(&b, fmt.Sprint("lr ", lr)))
		if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, Validation: set, BatchSize: 10}); err != nil {
			log.Fatal(err)
		}
	}
	for _, name := range b.Series() {
		if strings.HasPrefix(name, "loss/") {
			fmt.Println(name)
		}
	}
	// Output:
	// loss/lr 0.1 training
	// loss/lr 0.1 validation
	// loss/lr 0.01 training
	// loss/lr 0.01 validation
}

// Show a bar with the latest metrics: on os.Stderr, usually. They are read every 5 steps here,
// which is also how often a loss that is not finite is noticed.
func ExampleProgress() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	var bar strings.Builder
	trainer := train.New(train.MaxEpochs(2), train.Progress(&bar), train.LogEvery(5))
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(bar.String(), "epoch 2/2"), strings.Contains(bar.String(), "loss"))
	// Output:
	// true true
}

// Measure more than loss and accuracy, over all examples of the validation data.
func ExampleMeasure() {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
	trainer := train.New(train.LearningRate(0.5), train.Measure(metric.TopK(3), metric.F1(10, metric.Macro), metric.ConfusionMatrix(10)))
	report, err := trainer.Fit(model, train.Data{Train: learn, Validation: test, BatchSize: 64})
	if err != nil {
		log.Fatal(err)
	}
	last := report.Last()
	fmt.Println(last.Validation["top_3_accuracy"] >= last.Validation["accuracy"], last.Validation["f1"] > 0.5)
	var examples float64
	for _, row := range last.Tables["confusion_matrix"] {
		for _, count := range row {
			examples += count
		}
	}
	fmt.Println(examples, "examples in the confusion matrix")
	// Output:
	// true true
	// 360 examples in the confusion matrix
}

// See whether the steps were compiled: Summary in a few lines, Explain in full.
func ExampleSummary() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	var short, long strings.Builder
	trainer := train.New(train.Summary(&short), train.Explain(&long))
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.HasPrefix(short.String(), "a step: compiled"), strings.Contains(long.String(), "tracing"))
	// Output:
	// true true
}

// See where the time goes: profile three steps, after the first ones, which compile. With
// Board the page shows the timeline.
func ExampleProfile() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.MaxEpochs(2), train.Profile(10, 3, func(p train.Profiled) error {
		fmt.Println(p.Steps, "steps from step", p.First)
		// fmt.Println(p.Times) is a table of what each op took; p.Timeline has every one.
		return nil
	}))
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 steps from step 10
}

// See the whole of what became of the compiled steps: what was traced, and the programs.
func ExampleExplain() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	var text strings.Builder // usually os.Stderr
	trainer := train.New(train.Explain(&text))
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(text.String(), "linear")) // an op of the program
	// Output:
	// true
}

// Notice a loss that is not finite within two steps: the run ends with an error.
func ExampleLogEvery() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.LearningRate(1e30), train.LogEvery(2))
	report, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10})
	fmt.Println(errors.Is(err, train.ErrNotFinite), report.Steps <= 4)
	// Output:
	// true true
}
