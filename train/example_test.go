package train_test

import (
	"fmt"
	"log"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

// A model whose penalty grows from epoch to epoch. Its weight is a plain field, which the
// trainer looks at before each step: the steps are compiled, and traced again when the
// callback has changed it.
type penalized struct {
	*train.Supervised
	Weight float64
}

func (m *penalized) Loss(y, target *locus.Tensor) *locus.Tensor {
	return m.Supervised.Loss(y, target).Add(y.Square().Mean().Mul(m.Weight))
}

func ExampleCompile() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 1000, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	fit := func(compile bool) *train.Report {
		net := nn.Sequential(nn.Linear(2, 1, nn.WithKey(locus.NewKey(2))))
		m := &penalized{Supervised: train.Regressor(net)}
		r, err := train.New(train.MaxEpochs(3), train.Compile(compile), train.AfterEpoch(func(*train.Epoch) error {
			m.Weight += 0.01
			return nil
		})).Fit(m, train.Data{Train: set, BatchSize: 50})
		if err != nil {
			log.Fatal(err)
		}
		return r
	}
	eager, compiled := fit(false), fit(true)
	fmt.Println(eager.Last().Train["loss"] == compiled.Last().Train["loss"], compiled.Uncompiled == "")
	// Output:
	// true true
}
