package train_test

import (
	"fmt"
	"log"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// Train on a GPU where there is one, and on the CPU elsewhere.
func ExampleDevices() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Linear(2, 1)
	trainer := train.New(train.Devices(locus.TryGPU()))
	report, err := trainer.Fit(train.Regressor(net), train.Data{Train: set, BatchSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Devices[0] == locus.TryGPU(), net.Weight.Value().Device() == locus.TryGPU())
	// Output:
	// true true
}

// Train on two GPUs: each has a replica and half of every batch. Virtual GPUs stand in for
// real ones here.
func ExampleNumGPUs() {
	locus.AddVirtualGPUs(2, 64<<20)
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	report, err := train.New(train.NumGPUs(2)).
		Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(report.Devices), "devices,", report.Steps, "steps")
	// Output:
	// 2 devices, 10 steps
}

// Compute in bfloat16: faster on GPUs with tensor cores, with parameters, updates and losses
// in float32 as before.
func ExamplePrecision() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 200, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Linear(2, 1)
	trainer := train.New(train.MaxEpochs(5), train.Precision(locus.BFloat16))
	report, err := trainer.Fit(train.Regressor(net), train.Data{Train: set, BatchSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(net.Weight.Value().DType(), report.Last().Train["loss"] < 0.01)
	// Output:
	// float32 true
}

// A batch that nearly fits: compiled steps compute cheap values again instead of keeping them
// for the backward part. The results are the same to the bit.
func ExampleRecompute() {
	learn, err := data.Digits()
	if err != nil {
		log.Fatal(err)
	}
	fit := func(opts ...train.Option) float64 {
		net := nn.Sequential(nn.Flatten(), nn.Linear(64, 32, nn.WithKey(locus.NewKey(1))), nn.Tanh(), nn.Linear(32, 10, nn.WithKey(locus.NewKey(2))))
		report, err := train.New(opts...).Fit(train.Classifier(net), train.Data{Train: learn, BatchSize: 256})
		if err != nil {
			log.Fatal(err)
		}
		return report.Last().Train["loss"]
	}
	fmt.Println(fit() == fit(train.Recompute()))
	// Output:
	// true
}

// Train with several ranks: here goroutines of one program. For processes that "locus launch"
// or mpirun started, collective.Join takes the place of collective.Local. Every rank makes the
// same trainer, model and data, and reads its part of each batch.
func ExampleRanks() {
	groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU()})
	if err != nil {
		log.Fatal(err)
	}
	reports := make([]*train.Report, len(groups))
	var wg sync.WaitGroup
	for rank, g := range groups {
		wg.Go(func() {
			defer g.Close()
			set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
			if err != nil {
				log.Fatal(err)
			}
			trainer := train.New(train.Ranks(g), train.Devices(locus.CPU()))
			reports[rank], err = trainer.Fit(train.Regressor(nn.Linear(2, 1)), train.Data{Train: set, BatchSize: 10})
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	fmt.Println(reports[0].Steps, reports[0].Last().Train["loss"] == reports[1].Last().Train["loss"])
	// Output:
	// 10 true
}

// Small batches on two devices: batch normalization uses the statistics of the whole batch,
// so the result is that of one device, but for rounding.
func ExampleSyncBatchNorm() {
	learn, err := data.Digits()
	if err != nil {
		log.Fatal(err)
	}
	fit := func(opts ...train.Option) float64 {
		net := nn.Sequential(nn.Flatten(), nn.BatchNorm(64), nn.Linear(64, 10, nn.WithKey(locus.NewKey(1))))
		report, err := train.New(opts...).Fit(train.Classifier(net), train.Data{Train: learn, BatchSize: 64})
		if err != nil {
			log.Fatal(err)
		}
		return report.Last().Train["loss"]
	}
	one := fit()
	two := fit(train.Devices(locus.CPU(), locus.CPU()), train.SyncBatchNorm())
	fmt.Println(two/one > 0.999 && two/one < 1.001)
	// Output:
	// true
}

// Share the state of Adam out over two ranks: each keeps the averages of its share of the
// parameters. The result is the same to the bit.
func ExampleShardOptimizer() {
	set, err := data.SyntheticRegression(locus.NewKey(1), 100, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		log.Fatal(err)
	}
	fit := func(opts ...train.Option) (loss [2]float64) {
		groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU()})
		if err != nil {
			log.Fatal(err)
		}
		var wg sync.WaitGroup
		for rank, g := range groups {
			wg.Go(func() {
				defer g.Close()
				model := train.Regressor(nn.Linear(2, 1, nn.WithKey(locus.NewKey(2))))
				model.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.1, optim.AdamOptions{}) }
				trainer := train.New(append(opts, train.Ranks(g), train.Devices(locus.CPU()))...)
				report, err := trainer.Fit(model, train.Data{Train: set, BatchSize: 10})
				if err != nil {
					log.Fatal(err)
				}
				loss[rank] = report.Last().Train["loss"]
			})
		}
		wg.Wait()
		return loss
	}
	fmt.Println(fit() == fit(train.ShardOptimizer()))
	// Output:
	// true
}
