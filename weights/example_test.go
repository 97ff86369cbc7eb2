package weights_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

func Example() {
	dir, err := os.MkdirTemp("", "weights")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")

	w := locus.From([][]float32{{1, 2}, {3, 4}})
	hidden := map[string]string{"hidden": "256"} // hyperparameters travel with the weights
	if err := weights.Save(path, map[string]*locus.Tensor{"fc.weight": w}, hidden); err != nil {
		panic(err)
	}

	f, err := weights.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	back, err := f.Load("fc.weight", locus.TryGPU())
	if err != nil {
		panic(err)
	}
	fmt.Println(back.To(locus.CPU()), f.Metadata()["hidden"])

	err = f.Match(map[string]weights.Spec{"fc.weight": {DType: locus.Float32, Shape: []int{2, 3}}})
	fmt.Println(err.(*weights.MatchError).Different)
	// Output:
	// [[1 2]
	//  [3 4]] float32 (2, 2) on cpu 256
	// [{fc.weight float32 (2, 3) float32 (2, 2) F32}]
}
