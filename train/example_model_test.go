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

// autoencoder learns to give its input back: what its steps do with a batch differs from
// other models, so it has steps of its own.
type autoencoder struct {
	Encoder, Decoder *nn.LinearLayer
}

func (m *autoencoder) Forward(x *locus.Tensor) *locus.Tensor {
	return m.Decoder.Forward(m.Encoder.Forward(x).Tanh())
}

func (m *autoencoder) Loss(output, target *locus.Tensor) *locus.Tensor {
	return locus.MSELoss(output, target, locus.ReduceMean)
}

// TrainingStep returns the loss of a batch: the target is the image itself.
func (m *autoencoder) TrainingStep(fields []*locus.Tensor) *locus.Tensor {
	x := fields[0].Reshape(-1, 64)
	return m.Loss(m.Forward(x), x)
}

// ValidationStep returns what is measured on a batch of validation data.
func (m *autoencoder) ValidationStep(fields []*locus.Tensor) map[string]*locus.Tensor {
	x := fields[0].Reshape(-1, 64)
	y := m.Forward(x)
	return map[string]*locus.Tensor{"loss": m.Loss(y, x), "largest_error": y.Sub(x).Abs().Max()}
}

// PredictionStep returns the code of each image.
func (m *autoencoder) PredictionStep(fields []*locus.Tensor) *locus.Tensor {
	return m.Encoder.Forward(fields[0].Reshape(-1, 64)).Tanh()
}

// ConfigureOptimizer chooses the optimizer.
func (m *autoencoder) ConfigureOptimizer(params []nn.Entry) *optim.Optimizer {
	return optim.Adam(params, 1e-2, optim.AdamOptions{})
}

// Hyperparameters says what the model was made with; it is saved with checkpoints.
func (m *autoencoder) Hyperparameters() train.Hyperparameters {
	return train.Hyperparameters{"code": m.Encoder.Weight.Value().Dim(0)}
}

// A model with steps of its own: training, validation and prediction.
func ExampleModel() {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	model := &autoencoder{nn.Linear(64, 8), nn.Linear(8, 64)}
	trainer := train.New(train.MaxEpochs(3))
	set := train.Data{Train: learn, Validation: test, Predict: test, BatchSize: 120}
	report, err := trainer.Fit(model, set)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Last().Validation["loss"] < 0.1, report.Hyperparameters["model.code"])
	for codes, err := range trainer.Predict(model, set) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(codes.Shape())
		codes.Free()
	}
	// Output:
	// true 8
	// [120 8]
	// [120 8]
	// [120 8]
}
