package predict

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
)

// Rows predicts the classes of the rows of CSV files, encoded as the training data
// was. A column with the classes may be missing.
func Rows(net nn.Module, d locus.Device, e *data.Encoder, classes []string, files []string, top int) ([]Prediction, error) {
	var list []Prediction
	for _, file := range files {
		t, err := data.ReadCSV(file, data.CSVOptions{})
		if err != nil {
			return nil, err
		}
		x, err := e.Encode(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var p []float32
		err = locus.Try(func() {
			locus.NoGrad(func() {
				p = locus.ToSlice[float32](net.Forward(x.Reshape(x.Dim(0), x.Dim(1), 1, 1).To(d)).Softmax(1))
			})
		})
		if err != nil {
			return nil, err
		}
		for i := range t.Len() {
			list = append(list, Prediction{File: fmt.Sprintf("%s, row %d", file, i+1), Top: best(p[i*len(classes):(i+1)*len(classes)], classes, top)})
		}
	}
	return list, nil
}
