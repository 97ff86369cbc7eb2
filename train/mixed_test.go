package train_test

import (
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// A loop by hand in mixed precision, with nn.Lower and optim.Scaler, takes the
// trainer's steps, to the bit.
func TestLowerAndScalerByHand(t *testing.T) {
	set := task(t, 48)
	for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
		for _, precision := range []locus.DType{locus.BFloat16, locus.Float16} {
			build := func() *train.Supervised {
				k := locus.NewKey(2).Split(2)
				m := train.Classifier(nn.Sequential(nn.Linear(4, 8, nn.WithKey(k[0])), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.3, nn.WithKey(k[1])), nn.Linear(8, 3, nn.WithKey(k[1]))))
				m.LossFunc = func(y, target *locus.Tensor) *locus.Tensor { // float16 overflows at first
					return locus.CrossEntropy(y, target, locus.CrossEntropyOptions{}).Mul(50)
				}
				m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.01, optim.AdamOptions{}) }
				return m
			}
			want := build()
			must(t)(train.New(train.MaxEpochs(3), train.Devices(d), train.Precision(precision), train.Seed(4)).Fit(want, train.Data{Train: set, BatchSize: 8}))

			m := build()
			nn.To(m, d)
			nn.Train(m)
			params := nn.Parameters(m)
			opt := m.Optimizer(params)
			scaler := optim.NewScaler(d)
			loader, err := data.NewLoader(set, data.Options{BatchSize: 8, Shuffle: true, Key: locus.NewKey(4), Device: d})
			if err != nil {
				t.Fatal(err)
			}
			for epoch := range 3 {
				for b, err := range loader.Epoch(epoch) {
					if err != nil {
						t.Fatal(err)
					}
					locus.Scoped(func(s *locus.Scope) {
						half := nn.Lower(s, m, precision)
						loss := m.LossFunc(half.Forward(s.Use(b.X()).Cast(precision)).Cast(locus.Float32), s.Use(b.Y()))
						if precision == locus.BFloat16 {
							opt.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(params)))
						} else {
							scaler.Step(opt, locus.Grad([]*locus.Tensor{scaler.Scale(loss)}, nn.Values(params)))
						}
					})
					b.Free()
				}
			}
			if !slices.Equal(weights(m), weights(want)) {
				t.Errorf("%s on %s: another result than the trainer's", precision, d)
			}
			for _, e := range params {
				if e.Value().DType() != locus.Float32 {
					t.Errorf("%s became %s", e.Name, e.Value().DType())
				}
			}
			if v := scaler.Value(); precision == locus.Float16 && !(v < 1<<16 && v > 1) {
				t.Errorf("the scale is %v: nothing overflowed", v)
			}
		}
	}
}
