// Command epoch trains on Fashion-MNIST as a program of a user does, for
// bench/epoch.py, which does the same in PyTorch beside it:
//
//	go run ./bench/epoch -net mlp -threads 2
//
// It prints one JSON line: the seconds it took to read the files, those of each
// epoch, and how well the network then does on the test images.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

func mlp() nn.Module {
	return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
}

func leNet() nn.Module {
	pool := nn.AvgPool2D(2, locus.PoolOptions{})
	return nn.Sequential(
		nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), pool,
		nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.Sigmoid(), pool,
		nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))
}

func main() {
	name := flag.String("net", "mlp", "mlp (784-256-10) or lenet")
	epochs := flag.Int("epochs", 3, "how many")
	threads := flag.Int("threads", 0, "number of threads; 0 means all")
	folder := flag.String("data", "", "where the files are; without it, where Debian's package puts them")
	profile := flag.String("profile", "", "write a CPU profile to this file, for go tool pprof")
	flag.Parse()
	pool.SetThreads(*threads)
	net, lr := mlp(), 0.1
	if *name == "lenet" {
		net, lr = leNet(), 0.9
	}
	start := time.Now()
	images, test, err := data.FashionMNIST(data.Source{Folder: *folder})
	check(err)
	read := time.Since(start)
	if *profile != "" {
		f, err := os.Create(*profile)
		check(err)
		check(pprof.StartCPUProfile(f))
	}
	trainer := train.New(train.MaxEpochs(*epochs), train.LearningRate(lr))
	report, err := trainer.Fit(train.Classifier(net), train.Data{Train: images, BatchSize: 256})
	check(err)
	pprof.StopCPUProfile()
	var times []float64
	for _, e := range report.Epochs {
		times = append(times, e.Time.Seconds())
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"read": read.Seconds(), "epochs": times, "accuracy": accuracy(net, test)}))
}

// accuracy is the part of the test images that the network gets right.
func accuracy(net nn.Module, test data.Dataset) float64 {
	loader, err := data.NewLoader(test, data.Options{BatchSize: 1000})
	check(err)
	right := 0.0
	for batch, err := range loader.Epoch(0) {
		check(err)
		locus.NoGrad(func() {
			right += train.Accuracy(net.Forward(batch.X()), batch.Y()).Item() * float64(batch.Size)
		})
	}
	return right / float64(test.Len())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
