package predict

import (
	"context"
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train/metric"
)

// Rows predicts the classes, or the numbers, of the rows of CSV files, encoded as the
// training data was. The column that was learned may be missing.
func Rows(net nn.Module, d locus.Device, card model.Card, files []string, top int) ([]Prediction, error) {
	var list []Prediction
	for _, file := range files {
		t, err := model.ReadTable(file)
		if err != nil {
			return nil, err
		}
		x, err := card.Encoder.Encode(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var p []float32
		err = locus.Try(func() {
			locus.NoGrad(func() {
				y := net.Forward(x.Reshape(x.Dim(0), x.Dim(1), 1, 1).To(d))
				if card.Scaler != nil {
					y = card.Scaler.Unscale(y)
				} else {
					y = y.Softmax(1)
				}
				p = locus.ToSlice[float32](y)
			})
		})
		if err != nil {
			return nil, err
		}
		for i := range t.Len() {
			one := Prediction{File: fmt.Sprintf("%s, row %d", file, i+1)}
			if card.Scaler != nil {
				one.Value = float64(p[i])
			} else {
				n := len(card.Classes)
				one.Top = best(p[i*n:(i+1)*n], card.Classes, top)
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// Errors is how a network that has learned numbers does on a test set.
type Errors struct {
	Examples int     `json:"examples"`
	RMSE     float64 `json:"rmse"`
	MAE      float64 `json:"mae"`
	R2       float64 `json:"r2"`
}

// TestNumbers measures a network that has learned numbers on a dataset whose numbers
// are scaled; errors are in their own units.
func TestNumbers(ctx context.Context, net nn.Module, d locus.Device, set data.Dataset, scaler *data.Scaler, batch int) (*Errors, error) {
	meter := metric.NewMeter(metric.RMSE(), metric.MAE(), metric.R2())
	if err := outputs(ctx, net, d, set, batch, meter.Add); err != nil {
		return nil, err
	}
	v, unit := meter.Values(), scaler.Std()[0]
	return &Errors{set.Len(), v["rmse"] * unit, v["mae"] * unit, v["r2"]}, nil
}
