// Command multigpu trains the same network on one GPU and on two, mirrored: each
// has a replica, each batch is split over them, and gradients are added up. It
// shows the speed of both, that they learn the same, and that the replicas stay
// equal to the bit. Where the machine has fewer than two GPUs, virtual ones take
// their place.
package main

import (
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

func main() {
	if err := run(os.Stdout, 5); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, epochs int) error {
	if n := locus.NumGPUs(); n < 2 {
		fmt.Fprintf(w, "%d GPU(s) found; adding virtual ones. They share this machine's cores, so expect no gain in speed.\n\n", n)
		locus.AddVirtualGPUs(2-n, 256<<20)
	}

	one, err := fit(epochs, locus.GPU(0))
	if err != nil {
		return err
	}
	two, err := fit(epochs, locus.GPU(0), locus.GPU(1))
	if err != nil {
		return err
	}

	fmt.Fprintln(w, "epoch   loss on one   loss on two    difference")
	for i := range one.Epochs {
		a, b := one.Epochs[i].Train["loss"], two.Epochs[i].Train["loss"]
		fmt.Fprintf(w, "%5d   %11.6f   %11.6f   %11.1e\n", i+1, a, b, math.Abs(a-b))
	}
	fmt.Fprintf(w, "\n%.0f examples/s on one GPU, %.0f on two: %.2f times as fast\n",
		one.Throughput(), two.Throughput(), two.Throughput()/one.Throughput())
	fmt.Fprintln(w, "the replicas were equal to the bit whenever they were looked at")
	return nil
}

// fit trains a network that starts from the same values every time.
func fit(epochs int, devices ...locus.Device) (*train.Report, error) {
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return nil, err
	}
	layer := func(key uint64, out int) nn.Module { return nn.LazyLinear(out, nn.WithKey(locus.NewKey(key))) }
	net := nn.Sequential(nn.Flatten(), layer(1, 512), nn.ReLU(), layer(2, 512), nn.ReLU(), layer(3, 10))

	trainer := train.New(
		train.MaxEpochs(epochs),
		train.Devices(devices...),
		train.AfterStep(func(s *train.Step) error {
			if s.Index > 0 { // looking waits for the GPUs: once per epoch is enough
				return nil
			}
			return checkReplicas(s.Models)
		}))
	// The last batch of an epoch has 29 examples: 15 for one GPU, 14 for the other.
	return trainer.Fit(train.Classifier(net), train.Data{Train: learn, BatchSize: 128})
}

// checkReplicas compares every parameter of every replica with the first's.
func checkReplicas(models []train.Model) error {
	first := nn.Parameters(models[0])
	for _, m := range models[1:] {
		for i, p := range nn.Parameters(m) {
			if !slices.Equal(locus.ToSlice[float32](p.Value()), locus.ToSlice[float32](first[i].Value())) {
				return fmt.Errorf("%s differs between %s and %s", p.Name, first[i].Value().Device(), p.Value().Device())
			}
		}
	}
	return nil
}
