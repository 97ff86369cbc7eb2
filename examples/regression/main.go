// Command regression learns the prices of houses from a CSV file, and predicts
// those of others in a process of its own that has nothing but the saved model.
//
//	go run ./examples/regression train
//	go run ./examples/regression predict new.csv
//
// It shows normalization of inputs and targets, a split into three parts, early
// stopping on the lowest RMSE with the best weights kept, and a model file that
// holds all that is needed to use it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

func main() {
	log.SetFlags(0)
	table := flag.String("data", "examples/regression/houses.csv", "the table to learn from")
	model := flag.String("model", "houses.safetensors", "where the model is kept")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "train":
		err = learn(os.Stdout, *table, *model)
	case "predict":
		err = predict(os.Stdout, *model, flag.Arg(1))
	default:
		err = errors.New("say train, or predict and a CSV file")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// target is the column to learn.
const target = "price"

// newNet makes the network for inputs of an encoder. Training and prediction build
// the same one.
func newNet(inputs int) *nn.SequentialLayer {
	return nn.Sequential(
		nn.Linear(inputs, 64, nn.WithKey(locus.NewKey(1))), nn.GELU(),
		nn.Linear(64, 64, nn.WithKey(locus.NewKey(2))), nn.GELU(),
		nn.Linear(64, 1, nn.WithKey(locus.NewKey(3))))
}

// learn trains a model on a table and saves it.
func learn(w io.Writer, path, model string) error {
	table, err := data.ReadCSV(path, data.CSVOptions{})
	if err != nil {
		return err
	}
	fifth := table.Len() / 5
	parts, err := table.Split(locus.NewKey(0), -1, fifth, fifth)
	if err != nil {
		return err
	}

	// Means, deviations and categories are those of the part to learn from: the
	// others stand for houses that nobody has seen yet.
	encoder, err := data.NewEncoder(parts[0], data.Features{Except: []string{target}})
	if err != nil {
		return err
	}
	var sets [3]data.Dataset
	var prices *data.Scaler
	for i, part := range parts {
		set, err := dataset(encoder, part)
		if err != nil {
			return err
		}
		if i == 0 {
			if prices, err = data.NewScaler(set, 1); err != nil {
				return err
			}
		}
		sets[i] = data.Map(set, prices.Transform(1))
	}

	net := newNet(len(encoder.Names()))
	regressor := train.Regressor(net)
	regressor.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		return optim.AdamW(p, 0.003, optim.AdamOptions{WeightDecay: 0.01})
	}
	trainer := train.New(
		train.MaxEpochs(300),
		train.Devices(locus.TryGPU()),
		train.Measure(metric.RMSE(), metric.R2()),
		train.Monitor("rmse", train.Lowest),
		train.EarlyStopping(25),
		train.KeepBest())
	all := train.Data{Train: sets[0], Validation: sets[1], Test: sets[2], BatchSize: 32}
	report, err := trainer.Fit(regressor, all)
	if err != nil {
		return err
	}
	scores, err := trainer.Test(regressor, all)
	if err != nil {
		return err
	}
	unit := prices.Std()[0] // what 1 is in thousands
	best := report.Epochs[report.BestEpoch]
	fmt.Fprintf(w, "%d houses to learn from, %d to choose by, %d to test with\n", sets[0].Len(), sets[1].Len(), sets[2].Len())
	fmt.Fprintf(w, "stopped after %d epochs: %s\n", len(report.Epochs), report.Stopped)
	fmt.Fprintf(w, "best epoch %d: RMSE %.1f thousand\n", best.Number+1, best.Validation["rmse"]*unit)
	fmt.Fprintf(w, "on houses never seen: RMSE %.1f thousand, R² %.3f\n", scores.Values["rmse"]*unit, scores.Values["r2"])
	return save(model, net, saved{encoder, prices})
}

// dataset is a part of the table as inputs and prices.
func dataset(e *data.Encoder, t *data.Table) (data.Dataset, error) {
	x, err := e.Encode(t)
	if err != nil {
		return nil, err
	}
	y, err := t.Targets(target)
	if err != nil {
		return nil, err
	}
	return data.NewTensorDataset(x, y)
}

// saved is what the model file holds beside the weights.
type saved struct {
	Encoder *data.Encoder // of the inputs
	Prices  *data.Scaler  // of the target
}

func save(path string, net nn.Module, s saved) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return nn.SaveWith(path, net, map[string]string{"regression": string(text)})
}

func load(path string) (net *nn.SequentialLayer, s saved, err error) {
	texts, err := nn.Metadata(path)
	if err != nil {
		return nil, s, err
	}
	if err := json.Unmarshal([]byte(texts["regression"]), &s); err != nil {
		return nil, s, fmt.Errorf("%s: not a model of this program: %w", path, err)
	}
	if s.Encoder == nil || s.Prices == nil {
		return nil, s, fmt.Errorf("%s: not a model of this program", path)
	}
	net = newNet(len(s.Encoder.Names()))
	return nn.Eval(net), s, nn.Load(path, net)
}

// predict prints the prices of the houses in a table, which need not have any.
func predict(w io.Writer, model, path string) error {
	net, s, err := load(model)
	if err != nil {
		return err
	}
	table, err := data.ReadCSV(path, data.CSVOptions{})
	if err != nil {
		return err
	}
	x, err := s.Encoder.Encode(table)
	if err != nil {
		return err
	}
	var prices []float32
	locus.NoGrad(func() { prices = locus.ToSlice[float32](s.Prices.Unscale(net.Forward(x)).Flatten()) })
	for i, p := range prices {
		fmt.Fprintf(w, "house %d: %.0f thousand\n", i+1, p)
	}
	return nil
}
