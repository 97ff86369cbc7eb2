package checkpoint_test

import (
	"fmt"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights/checkpoint"
)

func Example() {
	path, err := os.MkdirTemp("", "run")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(path)

	type state struct{ Epoch, Step int }
	dir, err := checkpoint.Open(path, 3)
	if err != nil {
		panic(err)
	}
	for epoch := range 5 {
		w := map[string]*locus.Tensor{"w": locus.CPU().Full(float64(epoch), 2)}
		if _, err := dir.Save(w, state{Epoch: epoch, Step: epoch * 100}); err != nil {
			panic(err)
		}
	}

	// After a crash:
	c, err := dir.Latest()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	var s state
	if err := c.State(&s); err != nil {
		panic(err)
	}
	w, err := c.Tensors.Load("w", locus.CPU())
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Epoch, s.Step, w)
	// Output:
	// 4 400 [4 4] float32 (2,) on cpu
}
