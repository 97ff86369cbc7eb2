package export_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/export"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// Save a trained network for a service that does not have its code. An input decides the shape
// and the element type.
func ExampleSaveNet() {
	folder, err := os.MkdirTemp("", "export")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "net.locus")
	net := nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
	x := locus.Ones(4, 2)
	if err := export.SaveNet(path, net, x); err != nil {
		log.Fatal(err)
	}

	p, err := export.Load(path) // in the service
	if err != nil {
		log.Fatal(err)
	}
	y := p.Call(x)[0]
	fmt.Println(p.Signature(), y.Eq(net.Forward(x)).All().Item() == 1)
	// Output:
	// (float32 (4, 2)) → (float32 (4, 1)) true
}

// Look at what a program takes and returns without reading its weights.
func ExampleInspect() {
	folder, err := os.MkdirTemp("", "export")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "net.locus")
	if err := export.SaveNet(path, nn.Linear(2, 3), locus.Ones(4, 2)); err != nil {
		log.Fatal(err)
	}
	f, err := weights.Open(path) // it is a file of weights as well
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	signature, ok, err := export.Inspect(f)
	fmt.Println(f.Names(), signature, ok, err)
	// Output:
	// [bias weight] (float32 (4, 2)) → (float32 (4, 3)) true <nil>
}

// Send a program over a connection, here a buffer, and run it on a device of the other side.
func ExampleWrite() {
	double := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{a[0].Mul(2)}
	})
	var wire bytes.Buffer
	if err := export.Write(&wire, double, locus.Zeros(3)); err != nil {
		log.Fatal(err)
	}
	p, err := export.Read(bytes.NewReader(wire.Bytes()), int64(wire.Len()))
	if err != nil {
		log.Fatal(err)
	}
	d := locus.TryGPU()
	y := p.On(d).Call(d.From([]float32{1, 2, 3}))[0]
	fmt.Println(locus.ToSlice[float32](y))
	// Output:
	// [2 4 6]
}

// Load a program and use it with new inputs.
func ExampleLoad() {
	folder, err := os.MkdirTemp("", "export")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "line.locus")
	net := nn.Linear(1, 1, nn.WithInit(nn.Constant(2)), nn.WithBiasInit(nn.Constant(1)))
	if err := export.SaveNet(path, net, locus.Zeros(3, 1)); err != nil {
		log.Fatal(err)
	}

	p, err := export.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(locus.ToSlice[float32](p.Call(locus.From([]float32{1, 2, 3}, 3, 1))[0]))
	// Output:
	// [3 5 7]
}

// Read a program that is part of this one, by go:embed. A damaged one is an error.
func ExampleRead() {
	content := []byte("not a program")
	_, err := export.Read(bytes.NewReader(content), int64(len(content)))
	fmt.Println(errors.Is(err, weights.ErrFormat))
	// Output:
	// true
}
