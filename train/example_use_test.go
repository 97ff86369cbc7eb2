package train_test

import (
	"flag"
	"fmt"
	"log"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

// Measure a trained model on data that it has never seen.
func ExampleTrainer_Test() {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
	trainer := train.New(train.MaxEpochs(3), train.LearningRate(0.5), train.Measure(metric.TopK(2)))
	set := train.Data{Train: learn, Test: test, BatchSize: 64}
	if _, err := trainer.Fit(model, set); err != nil {
		log.Fatal(err)
	}
	result, err := trainer.Test(model, set)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Values["accuracy"] > 0.8, result.Values["top_2_accuracy"] > 0.9)
	// Output:
	// true true
}

// Use a network on data without targets, batch by batch.
func ExampleTrainer_Predict() {
	set, err := data.NewTensorDataset(locus.Arange(5).Cast(locus.Float32).Reshape(5, 1))
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Linear(1, 1, nn.WithInit(nn.Constant(2)), nn.WithBiasInit(nn.Constant(1)))
	for y, err := range train.New().Predict(net, train.Data{Predict: set, BatchSize: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(locus.ToSlice[float32](y))
		y.Free()
	}
	// Output:
	// [1 3]
	// [5 7]
	// [9]
}

// The part of rows whose largest score is at the target's position.
func ExampleAccuracy() {
	scores := locus.From([][]float32{{3, 1}, {0, 2}, {5, 4}, {1, 2}})
	fmt.Println(train.Accuracy(scores, locus.From([]int{0, 1, 1, 1})).Item())
	// Output:
	// 0.75
}

// Let the user of a program choose data, epochs and devices: -data, -folder, -epochs, -device
// and -gpus.
func ExampleNewFlags() {
	set := flag.NewFlagSet("digits", flag.ContinueOnError) // usually flag.CommandLine
	choices := train.NewFlags(set, 10)
	if err := set.Parse([]string{"-epochs", "1", "-device", "cpu"}); err != nil { // usually flag.Parse()
		log.Fatal(err)
	}
	choices.Progress = nil // no bar
	learn, test, err := choices.Open()
	if err != nil {
		log.Fatal(err)
	}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.LazyLinear(10)))
	report, err := train.New(choices.Options(train.LearningRate(0.5))...).
		Fit(model, train.Data{Train: learn, Validation: test, BatchSize: 64})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(report.Epochs), "epoch on", report.Devices)
	// Output:
	// 1 epoch on [cpu]
}

// Measure a model as it is, before any training.
func ExampleTrainer_Validate() {
	_, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10, nn.WithInit(nn.Constant(0)), nn.WithBiasInit(nn.Constant(0)))))
	result, err := train.New().Validate(model, train.Data{Validation: test, BatchSize: 64})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f\n", result.Values["loss"]) // the logarithm of 10: it knows nothing
	// Output:
	// 2.3026
}
