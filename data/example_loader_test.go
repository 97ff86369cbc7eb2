package data_test

import (
	"fmt"
	"log"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// Read batches in another order each epoch, on two goroutines ahead of the loop. The order
// comes from the key alone, whatever the number of workers.
func ExampleNewLoader() {
	set, err := data.NewTensorDataset(locus.Arange(10))
	if err != nil {
		log.Fatal(err)
	}
	loader, err := data.NewLoader(set, data.Options{
		BatchSize: 4, Shuffle: true, Key: locus.NewKey(1), Workers: 2, Prefetch: 4, Device: locus.CPU(),
	})
	if err != nil {
		log.Fatal(err)
	}
	for epoch := range 2 {
		seen := 0
		for batch, err := range loader.Epoch(epoch) {
			if err != nil {
				log.Fatal(err)
			}
			seen += batch.Size
			batch.Free()
		}
		fmt.Println("epoch", epoch, "has", loader.Len(), "batches and", seen, "examples")
	}
	// Output:
	// epoch 0 has 3 batches and 10 examples
	// epoch 1 has 3 batches and 10 examples
}

// Leave a last batch out that is smaller than the others, which a network whose shapes are
// fixed cannot take.
func ExampleOptions() {
	set, err := data.NewTensorDataset(locus.Arange(10))
	if err != nil {
		log.Fatal(err)
	}
	loader, err := data.NewLoader(set, data.Options{BatchSize: 4, DropLast: true})
	if err != nil {
		log.Fatal(err)
	}
	for batch, err := range loader.Epoch(0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(locus.ToSlice[int64](batch.X()))
	}
	// Output:
	// [0 1 2 3]
	// [4 5 6 7]
}

// Share batches out over two devices: the loader puts each part where it belongs, ahead of
// the loop.
func ExampleOptions_devices() {
	set, err := data.NewTensorDataset(locus.Arange(10))
	if err != nil {
		log.Fatal(err)
	}
	gpus := locus.AddVirtualGPUs(2, 16<<20) // they stand in for real ones
	loader, err := data.NewLoader(set, data.Options{BatchSize: 5, Devices: gpus})
	if err != nil {
		log.Fatal(err)
	}
	for batch, err := range loader.Epoch(0) {
		if err != nil {
			log.Fatal(err)
		}
		for i, part := range batch.Parts {
			x := part.Fields[0]
			fmt.Println(locus.ToSlice[int64](x), "of batch", batch.Index, "is where it belongs:", x.Device() == gpus[i])
		}
		batch.Free()
	}
	// Output:
	// [0 1 2] of batch 0 is where it belongs: true
	// [3 4] of batch 0 is where it belongs: true
	// [5 6 7] of batch 1 is where it belongs: true
	// [8 9] of batch 1 is where it belongs: true
}

// Share batches out over two programs: each reads its part only. Page-locked memory (Pin)
// lets a loop copy parts of them to GPUs itself, fast.
func ExampleOptions_ranks() {
	set, err := data.NewTensorDataset(locus.Arange(10))
	if err != nil {
		log.Fatal(err)
	}
	for rank := range 2 {
		loader, err := data.NewLoader(set, data.Options{BatchSize: 5, Rank: rank, Ranks: 2, Pin: true})
		if err != nil {
			log.Fatal(err)
		}
		for batch, err := range loader.Epoch(0) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(locus.ToSlice[int64](batch.X()), " of ", batch.Whole, ", ")
		}
		fmt.Println("on rank", rank)
	}
	// Output:
	// [0 1 2] of 5, [5 6 7] of 5, on rank 0
	// [3 4] of 5, [8 9] of 5, on rank 1
}

// Go on in the middle of an epoch, where a run was interrupted: behind batch 1.
func ExampleLoader_EpochFrom() {
	set, err := data.NewTensorDataset(locus.Arange(10))
	if err != nil {
		log.Fatal(err)
	}
	loader, err := data.NewLoader(set, data.Options{BatchSize: 3})
	if err != nil {
		log.Fatal(err)
	}
	for batch, err := range loader.EpochFrom(0, 2) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Index, locus.ToSlice[int64](batch.X()))
	}
	// Output:
	// 2 [6 7 8]
	// 3 [9]
}

// The same loader with other options: in order, for validation.
func ExampleLoader_With() {
	set, err := data.NewTensorDataset(locus.Arange(6))
	if err != nil {
		log.Fatal(err)
	}
	learn, err := data.NewLoader(set, data.Options{BatchSize: 2, Shuffle: true, Key: locus.NewKey(1)})
	if err != nil {
		log.Fatal(err)
	}
	check, err := learn.With(func(o *data.Options) { o.Shuffle = false; o.BatchSize = 3 })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(learn.Len(), check.Len(), check.Order(0))
	// Output:
	// 3 2 [0 1 2 3 4 5]
}
