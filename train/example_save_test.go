package train_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// Save the run after every epoch, keep the last two, and go on where it ended: the same
// program run again, for two epochs more.
func ExampleCheckpoints() {
	folder, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	for _, epochs := range []int{2, 4} {
		model := train.Regressor(nn.Linear(2, 1))
		trainer := train.New(train.MaxEpochs(epochs), train.Checkpoints(folder, 2), train.Resume(),
			train.BeforeEpoch(func(e *train.Epoch) error { fmt.Print("epoch ", e.Number, ", "); return nil }))
		report, err := trainer.Fit(model, train.Data{Train: set, BatchSize: 10})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(report.Steps, "steps in all")
	}
	// Output:
	// epoch 0, epoch 1, 20 steps in all
	// epoch 2, epoch 3, 40 steps in all
}

// A run that goes on must be the one that was begun. What was changed on purpose is accepted
// by name.
func ExampleAcceptChanges() {
	folder, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	fit := func(epochs, batch int, opts ...train.Option) error {
		opts = append(opts, train.MaxEpochs(epochs), train.Checkpoints(folder, 1), train.Resume())
		_, err := train.New(opts...).Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: batch})
		return err
	}
	fmt.Println(fit(1, 10))
	var changed *train.ChangedError
	fmt.Println(errors.As(fit(2, 20), &changed), changed.Changes[0].Name, changed.Changes[0].Was, changed.Changes[0].Is)
	fmt.Println(fit(2, 20, train.AcceptChanges("data.batch_size")))
	// Output:
	// <nil>
	// true data.batch_size 10 20
	// <nil>
}

// Note down what the trainer cannot know: it is saved with the run, and compared when the run
// goes on.
func ExampleRecord() {
	folder, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.Checkpoints(folder, 1), train.Record(train.Hyperparameters{"noise": 0.01}))
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	saved, err := train.SavedHyperparameters(folder) // weeks later
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(saved["noise"], saved["data.batch_size"], saved["optimizer"], saved["optimizer.lr"])
	// Output:
	// 0.01 10 SGD 0.1
}

// Save the trained network, and load it into a program that only uses it.
func ExampleTrainer_Fit_save() {
	folder, err := os.MkdirTemp("", "model")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	set, err := data.SyntheticRegression(locus.NewKey(1), 200, []float32{2}, 1, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	model := train.Regressor(nn.Linear(1, 1))
	model.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.1, optim.AdamOptions{}) }
	if _, err := train.New(train.MaxEpochs(20)).Fit(model, train.Data{Train: set, BatchSize: 20}); err != nil {
		log.Fatal(err)
	}
	if err := nn.Save(folder+"/line.safetensors", model.Net); err != nil {
		log.Fatal(err)
	}

	net := nn.Linear(1, 1)
	if err := nn.Load(folder+"/line.safetensors", net); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f\n", net.Forward(locus.Full(10, 1, 1)).Item())
	// Output:
	// 21.0
}

// Go on after a crash, in the middle of an epoch: Resume begins anew where there is nothing to
// go on from, so the same program serves both.
func ExampleResume() {
	folder, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	fit := func(ctx context.Context, opts ...train.Option) (*train.Report, error) {
		opts = append(opts, train.MaxEpochs(2), train.Checkpoints(folder, 1), train.Resume())
		return train.New(opts...).FitContext(ctx, train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10})
	}
	ctx, cancel := context.WithCancel(context.Background())
	report, err := fit(ctx, train.AfterStep(func(s *train.Step) error {
		if s.Steps == 7 {
			cancel()
		}
		return nil
	}))
	fmt.Println(report.Steps, errors.Is(err, context.Canceled))
	report, err = fit(context.Background())
	fmt.Println(report.Steps, err)
	// Output:
	// 7 true
	// 20 <nil>
}

// What a run was made with, from its folder: to make the same network again, say.
func ExampleSavedHyperparameters() {
	folder, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.Checkpoints(folder, 1), train.Record(train.Hyperparameters{"width": 16}))
	net := nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
	if _, err := trainer.Fit(train.Regressor(net), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	saved, err := train.SavedHyperparameters(folder)
	fmt.Println(saved["width"], err)
	// Output:
	// 16 <nil>
}
