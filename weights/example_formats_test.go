package weights_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

// Hand a tensor to a Python program: numpy.load reads the file.
func ExampleSaveNPY() {
	folder, err := os.MkdirTemp("", "weights")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "x.npy")
	if err := weights.SaveNPY(path, locus.From([][]float32{{1, 2}, {3, 4}})); err != nil {
		log.Fatal(err)
	}
	f, err := weights.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	x, err := f.Load("", locus.CPU()) // the one tensor of an npy file has no name
	fmt.Println(f.Format(), x, err)
	// Output:
	// npy [[1 2]
	//  [3 4]] float32 (2, 2) on cpu <nil>
}

// Hand several tensors to a Python program, by name.
func ExampleSaveNPZ() {
	folder, err := os.MkdirTemp("", "weights")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "both.npz")
	if err := weights.SaveNPZ(path, map[string]*locus.Tensor{"x": locus.Zeros(2, 3), "y": locus.Ones(2)}); err != nil {
		log.Fatal(err)
	}
	f, err := weights.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	all, err := f.LoadAll(locus.CPU())
	fmt.Println(f.Names(), all["x"].Shape(), err)
	// Output:
	// [x y] [2 3] <nil>
}

// Save tensors with some text about them, and look at what a file holds without loading it.
func ExampleSave() {
	folder, err := os.MkdirTemp("", "weights")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")
	tensors := map[string]*locus.Tensor{"weight": locus.Ones(2, 3), "bias": locus.Zeros(2)}
	if err := weights.Save(path, tensors, map[string]string{"epoch": "12"}); err != nil {
		log.Fatal(err)
	}
	f, err := weights.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Info("weight")
	fmt.Println(f.Len(), "tensors of epoch", f.Metadata()["epoch"])
	fmt.Println(info.Name, info.Spec, info.Bytes, "bytes")
	// Output:
	// 2 tensors of epoch 12
	// weight float32 (2, 3) 24 bytes
}

// Send tensors over a connection, here a buffer, and read them on the other side.
func ExampleWrite() {
	var wire bytes.Buffer
	if err := weights.Write(&wire, map[string]*locus.Tensor{"w": locus.Ones(3)}, nil); err != nil {
		log.Fatal(err)
	}
	f, err := weights.Read(bytes.NewReader(wire.Bytes()), int64(wire.Len()))
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	w, err := f.Load("w", locus.CPU())
	fmt.Println(w, err)
	// Output:
	// [1 1 1] float32 (3,) on cpu <nil>
}

// The same in NumPy's formats.
func ExampleWriteNPZ() {
	var one, several bytes.Buffer
	if err := weights.WriteNPY(&one, locus.Ones(3)); err != nil {
		log.Fatal(err)
	}
	if err := weights.WriteNPZ(&several, map[string]*locus.Tensor{"a": locus.Ones(3), "b": locus.Zeros(2)}); err != nil {
		log.Fatal(err)
	}
	for _, b := range [][]byte{one.Bytes(), several.Bytes()} {
		f, err := weights.Read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(f.Format(), f.Len())
		f.Close()
	}
	// Output:
	// npy 1
	// npz 2
}

// Be careful with a file from elsewhere: whatever it would unpack to, it may not take more
// than 16 bytes here.
func ExampleMaxUnpacked() {
	_, err := weights.Open("testdata/python-compressed.npz", weights.MaxUnpacked(16))
	fmt.Println(errors.Is(err, weights.ErrUnpacked))
	// Output:
	// true
}

// Check a file against the tensors of a program before loading: the error lists every
// difference at once.
func ExampleSpecOf() {
	var file bytes.Buffer
	if err := weights.Write(&file, map[string]*locus.Tensor{"weight": locus.Ones(2, 3)}, nil); err != nil {
		log.Fatal(err)
	}
	f, err := weights.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	err = f.Match(map[string]weights.Spec{
		"weight": weights.SpecOf(locus.Zeros(2, 4)),
		"bias":   {DType: locus.Float32, Shape: []int{2}},
	})
	var differs *weights.MatchError
	if errors.As(err, &differs) {
		fmt.Println("missing:", differs.Missing)
		fmt.Println("want", differs.Different[0].Want, "have", differs.Different[0].Have)
	}
	// Output:
	// missing: [bias]
	// want float32 (2, 4) have float32 (2, 3)
}

// Open a file that another program has written, whatever its format, and see what is in it.
func ExampleOpen() {
	f, err := weights.Open("testdata/python-mlp.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Println(f.Format())
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		fmt.Println(name, info.Spec)
	}
	// Output:
	// safetensors
	// 0.bias float32 (16,)
	// 0.weight float32 (16, 8)
	// 2.bias float32 (4,)
	// 2.weight float32 (4, 16)
	// x float32 (5, 8)
	// y float32 (5, 4)
}

// Read tensors that are part of the program, by go:embed, or came over the network.
func ExampleRead() {
	content, err := os.ReadFile("testdata/python-mlp.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	f, err := weights.Read(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	all, err := f.LoadAll(locus.CPU())
	fmt.Println(len(all) == f.Len(), err)
	// Output:
	// true <nil>
}

// Send one tensor in NumPy's format.
func ExampleWriteNPY() {
	var wire bytes.Buffer
	if err := weights.WriteNPY(&wire, locus.From([]int{1, 2, 3})); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", wire.Bytes()[1:6])
	// Output:
	// "NUMPY"
}
