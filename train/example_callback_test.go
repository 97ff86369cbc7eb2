package train_test

import (
	"fmt"
	"log"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

// Follow a run: callbacks before and after every epoch and every step.
func ExampleBeforeEpoch() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 20, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(
		train.BeforeEpoch(func(e *train.Epoch) error { fmt.Println("epoch", e.Number, "begins"); return nil }),
		train.BeforeStep(func(s *train.Step) error { fmt.Println("step", s.Steps, "begins"); return nil }),
		train.AfterStep(func(s *train.Step) error { fmt.Println(s.Steps, "steps taken"); return nil }),
		train.AfterEpoch(func(e *train.Epoch) error { fmt.Println("epoch", e.Number, "has", e.Examples, "examples"); return nil }),
	)
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// epoch 0 begins
	// step 0 begins
	// 1 steps taken
	// step 1 begins
	// 2 steps taken
	// epoch 0 has 20 examples
}

// Keep a weight positive: change the model after every step, on each of its devices.
func ExampleAfterStep() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Linear(2, 1)
	positive := train.AfterStep(func(s *train.Step) error {
		for _, m := range s.Models {
			w := nn.Parameters(m)[0]
			w.Set(w.Value().Detach().Relu())
		}
		return nil
	})
	if _, err := train.New(positive, train.MaxEpochs(3)).Fit(train.Regressor(net), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	w := locus.ToSlice[float32](net.Weight.Value().Detach())
	fmt.Println(slices.Min(w))
	// Output:
	// 0
}

// Scale images on the device, and add noise to those that the network learns from. What is
// random comes from the batch's key, so that a run can be repeated.
func ExamplePrepareBatch() {
	pixels := locus.Arange(256).Reshape(16, 16).Cast(locus.Uint8)
	set, err := data.NewTensorDataset(pixels, locus.Zeros(16, 1))
	if err != nil {
		log.Fatal(err)
	}
	scale := train.PrepareBatch(func(b *train.Batch) error {
		x := b.Fields[0].Cast(locus.Float32).Div(255)
		if b.Stage == train.Training {
			x = x.Add(x.Device().Key(b.Key).Randn(x.Shape()...).Mul(0.1))
		}
		b.Fields[0] = x
		return nil
	})
	report, err := train.New(scale).Fit(train.Regressor(nn.Linear(16, 1)), train.Data{Train: set, BatchSize: 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Steps, report.Last().Train["loss"] < 10)
	// Output:
	// 4 true
}

// Fine-tune: when the model is on its device, freeze all but its last layer.
func ExamplePrepareModel() {
	learn, err := data.Digits()
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
	freeze := train.PrepareModel(func(train.Model) error {
		// nn.Load("pretrained.safetensors", net) would come first.
		nn.Freeze(net)
		nn.Unfreeze(net.At(3))
		return nil
	})
	before := nn.Parameters(net)[0].Value().Detach().Copy()
	if _, err := train.New(freeze).Fit(train.Classifier(net), train.Data{Train: learn, BatchSize: 256}); err != nil {
		log.Fatal(err)
	}
	after := nn.Parameters(net)[0].Value().Detach()
	fmt.Println(after.Eq(before).All().Item() == 1)
	// Output:
	// true
}

// Do something before chosen steps: here before the third, at the rate that it will have.
func ExampleBeforeStep() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(train.LearningRate(0.05), train.BeforeStep(func(s *train.Step) error {
		if s.Steps == 2 {
			fmt.Println("two steps taken; the next is batch", s.Index, "at rate", s.LR)
		}
		return nil
	}))
	if _, err := trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// two steps taken; the next is batch 2 at rate 0.05
}
