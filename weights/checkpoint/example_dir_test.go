package checkpoint_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights/checkpoint"
)

// Keep the last two checkpoints of a run. A folder without any is no failure: the run begins.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	dir, err := checkpoint.Open(folder, 2)
	if err != nil {
		log.Fatal(err)
	}
	_, err = dir.Latest()
	fmt.Println("nothing yet:", errors.Is(err, checkpoint.ErrNone))
	for step := range 5 {
		if _, err := dir.Save(map[string]*locus.Tensor{"w": locus.Ones(2)}, map[string]int{"step": step}); err != nil {
			log.Fatal(err)
		}
	}
	whole, broken, err := dir.List()
	fmt.Println(len(whole), "checkpoints,", len(broken), "broken,", err)
	// Output:
	// nothing yet: true
	// 2 checkpoints, 0 broken, <nil>
}

// Go back to an older checkpoint by its number.
func ExampleDir_Load() {
	folder, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	dir, err := checkpoint.Open(folder, 0) // keeps all
	if err != nil {
		log.Fatal(err)
	}
	var numbers []int
	for step := range 3 {
		entry, err := dir.Save(map[string]*locus.Tensor{"w": locus.Full(float64(step), 2)}, step)
		if err != nil {
			log.Fatal(err)
		}
		numbers = append(numbers, entry.Number)
	}
	c, err := dir.Load(numbers[1])
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w, err := c.Tensors.Load("w", locus.CPU())
	fmt.Println(w, err)
	// Output:
	// [1 1] float32 (2,) on cpu <nil>
}
