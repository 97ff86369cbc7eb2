package nn_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// beforeNet is the network whose files of an earlier version are in
// testdata/before.
func beforeNet(lazy bool) *nn.SequentialLayer {
	k := locus.NewKey(41).Split(3)
	if lazy {
		return nn.Sequential(nn.LazyLinear(5), nn.BatchNorm(0), nn.ReLU(), nn.Dropout(0.5), nn.LazyLinear(2))
	}
	return nn.Sequential(nn.Linear(3, 5, nn.WithKey(k[0])), nn.BatchNorm(5), nn.ReLU(), nn.Dropout(0.5, nn.WithKey(k[1])), nn.Linear(5, 2, nn.WithKey(k[2])))
}

// beforeInput is made without random numbers, so that it stays what it is.
func beforeInput(n int) *locus.Tensor {
	x := make([]float32, 3*n)
	for i := range x {
		x[i] = float32(2 * math.Sin(float64(3*i+1)))
	}
	return locus.CPU().From(x, n, 3)
}

// Files of earlier versions load, statistics included, and the network computes
// what it computed then.
func TestFilesFromBefore(t *testing.T) {
	folder := filepath.Join("testdata", "before")
	record, err := weights.Open(filepath.Join(folder, "output.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	output, err := record.Load("", locus.CPU())
	if err != nil {
		t.Fatal(err)
	}
	want := values(output)
	for _, file := range []string{"net.safetensors", "net.npz"} {
		for _, lazy := range []bool{false, true} {
			for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
				net := nn.Eval(nn.To(beforeNet(lazy), d))
				if err := nn.Load(filepath.Join(folder, file), net); err != nil {
					t.Errorf("%s: %v", file, err)
					continue
				}
				got := values(net.Forward(beforeInput(4).To(d)))
				if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-5 }) {
					t.Errorf("%s, lazy %v, on %s: %v, was %v", file, lazy, d, got, want)
				}
			}
		}
	}
	if m, err := nn.Metadata(filepath.Join(folder, "net.safetensors")); err != nil || m["about"] != "a small network" {
		t.Errorf("%v %v", m, err)
	}
}
