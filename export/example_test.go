package export_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/export"
)

// A function of two tensors, saved and used without its source.
func ExampleSave() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "distance.locus")
	distance := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{a[0].Sub(a[1]).Square().Sum(-1).Sqrt()}
	})
	if err := export.Save(path, distance, locus.Zeros(2, 2), locus.Zeros(2, 2)); err != nil {
		log.Fatal(err)
	}

	p, err := export.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Signature())
	y := p.Call(locus.From([][]float32{{3, 4}, {1, 1}}), locus.From([][]float32{{0, 0}, {1, 2}}))[0]
	fmt.Println(locus.ToSlice[float32](y))
	// Output:
	// (float32 (2, 2), float32 (2, 2)) → (float32 (2,))
	// [5 1]
}
