package data_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// Make a dataset of tensors: inputs first, targets last.
func ExampleNewTensorDataset() {
	x := locus.Arange(6).Reshape(3, 2)
	y := locus.From([]float32{10, 20, 30}, 3, 1)
	set, err := data.NewTensorDataset(x, y)
	if err != nil {
		log.Fatal(err)
	}
	batch, err := set.Batch([]int{2, 0}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Len(), locus.ToSlice[int64](batch[0]), locus.ToSlice[float32](batch[1]))
	// Output:
	// 3 [4 5 0 1] [30 10]
}

// Make a dataset of inputs and class numbers. A number without a class is an error at once,
// not in the middle of training.
func ExampleNewClassified() {
	x := locus.Zeros(3, 2)
	set, err := data.NewClassified(x, locus.From([]int{0, 1, 1}), []string{"cat", "dog"})
	fmt.Println(set.Len(), set.Classes, err)
	_, err = data.NewClassified(x, locus.From([]int{0, 1, 2}), []string{"cat", "dog"})
	fmt.Println(err != nil)
	// Output:
	// 3 [cat dog] <nil>
	// true
}

// Keep a tenth of the examples apart to validate with.
func ExampleSplit() {
	digits, err := data.Digits()
	if err != nil {
		log.Fatal(err)
	}
	parts, err := data.Split(digits, locus.NewKey(1), -1, digits.Len()/10) // -1 is the rest
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(parts[0].Len(), parts[1].Len())
	// Output:
	// 1618 179
}

// Try a program with the first hundred examples.
func ExampleSubset() {
	digits, err := data.Digits()
	if err != nil {
		log.Fatal(err)
	}
	at := make([]int, 100)
	for i := range at {
		at[i] = i
	}
	few, err := data.Subset(digits, at)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(few.Len())
	// Output:
	// 100
}

// Put two datasets together.
func ExampleConcat() {
	old, err := data.NewTensorDataset(locus.Zeros(3, 2))
	if err != nil {
		log.Fatal(err)
	}
	added, err := data.NewTensorDataset(locus.Ones(2, 2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(data.Concat(old, added).Len())
	// Output:
	// 5
}

// Handwritten digits that come with the package: nothing to download.
func ExampleDigits() {
	digits, err := data.Digits()
	if err != nil {
		log.Fatal(err)
	}
	batch, err := digits.Batch([]int{0}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(digits.Len(), batch[0].Shape(), digits.Classes[batch[1].Int()])
	// Output:
	// 1797 [1 1 8 8] 0
}

// The digits, shared out into some to learn from and some to test with.
func ExampleDigitsSplit() {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(learn.Len(), test.Len())
	// Output:
	// 1437 360
}

// Let the user of a program choose a dataset by name.
func ExampleOpen() {
	fmt.Println(data.Names())
	learn, test, err := data.Open("digits", data.Source{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(learn.Len(), test.Len())
	// Output:
	// [digits fashion-mnist mnist]
	// 1437 360
}

// Read Fashion-MNIST from a folder. Where files are missing the error says how to get them;
// with Download they are fetched.
func ExampleFashionMNIST() {
	folder, err := os.MkdirTemp("", "data")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	_, _, err = data.FashionMNIST(data.Source{Folder: folder})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// true
}

// Read MNIST from four files in a folder, here of one image each.
func ExampleMNIST() {
	folder, err := os.MkdirTemp("", "data")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	images := append([]byte{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28}, make([]byte, 28*28)...)
	labels := []byte{0, 0, 8, 1, 0, 0, 0, 1, 7}
	for _, part := range []string{"train", "t10k"} {
		if err := errors.Join(
			os.WriteFile(filepath.Join(folder, part+"-images-idx3-ubyte"), images, 0o666),
			os.WriteFile(filepath.Join(folder, part+"-labels-idx1-ubyte"), labels, 0o666)); err != nil {
			log.Fatal(err)
		}
	}
	learn, test, err := data.MNIST(data.Source{Folder: folder})
	if err != nil {
		log.Fatal(err)
	}
	batch, err := learn.Batch([]int{0}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(test.Len(), batch[0].Shape(), batch[1].Int())
	// Output:
	// 1 [1 1 28 28] 7
}

// Download from a mirror of one's own into a cache of one's own. Files whose checksums are
// not the published ones are refused, as those of this mirror are.
func ExampleSource() {
	cache, err := os.MkdirTemp("", "cache")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(cache)
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "not MNIST")
	}))
	defer mirror.Close()
	asked := false
	_, _, err = data.MNIST(data.Source{
		Download: true, Mirror: mirror.URL, Cache: cache, Client: mirror.Client(),
		Progress: func(file string, done, total int64) { asked = true },
	})
	fmt.Println(asked, err != nil)
	// Output:
	// true true
}

// Read an array in MNIST's own format. A file that would take more memory than is allowed is
// refused before it does.
func ExampleReadIDX() {
	folder, err := os.MkdirTemp("", "data")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "labels.idx")
	if err := os.WriteFile(path, []byte{0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1}, 0o666); err != nil {
		log.Fatal(err)
	}
	labels, err := data.ReadIDX(path)
	fmt.Println(labels, err)
	_, err = data.ReadIDX(path, data.MaxBytes(2))
	fmt.Println(err != nil)
	// Output:
	// [7 2 1] uint8 (3,) on cpu <nil>
	// true
}

// The datasets that Open knows.
func ExampleNames() {
	for _, name := range data.Names() {
		fmt.Println(name)
	}
	// Output:
	// digits
	// fashion-mnist
	// mnist
}
