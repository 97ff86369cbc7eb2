package data_test

import (
	"fmt"
	"image"
	"image/png"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// Read a folder of photographs, a folder for each class, and bring them to one size.
func ExampleImageFolder() {
	folder, err := os.MkdirTemp("", "photos")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	for _, class := range []string{"cat", "dog"} { // one gray image of each
		os.Mkdir(filepath.Join(folder, class), 0o777)
		file, err := os.Create(filepath.Join(folder, class, "1.png"))
		if err != nil {
			log.Fatal(err)
		}
		if err := png.Encode(file, image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
			log.Fatal(err)
		}
		file.Close()
	}

	set, err := data.ImageFolder(folder, data.ImageOptions{Height: 24, Width: 32, Gray: true, MaxPixels: 10e6})
	if err != nil {
		log.Fatal(err)
	}
	batch, err := set.Batch([]int{0, 1}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Classes, batch[0].Shape(), locus.ToSlice[int64](batch[1]))
	// Output:
	// [cat dog] [2 1 24 32] [0 1]
}

// Subtract each channel's mean and divide by its deviation: those of the photographs that a
// pretrained network has learned from, say.
func ExampleNormalize() {
	images, err := data.NewTensorDataset(locus.Ones(4, 3, 2, 2), locus.Zeros(4))
	if err != nil {
		log.Fatal(err)
	}
	set := data.Map(images, data.Normalize([]float32{0.5, 0.5, 0}, []float32{0.5, 0.25, 1}))
	batch, err := set.Batch([]int{0}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(locus.ToSlice[float32](batch[0].Mean(0, 2, 3)))
	// Output:
	// [1 2 1]
}

// Shift images at random by up to two pixels. The key decides: the same gives the same.
func ExampleRandomCrop() {
	digits, err := data.Digits()
	if err != nil {
		log.Fatal(err)
	}
	set := data.Map(digits, data.RandomCrop(2))
	draw := func(seed uint64) []float32 {
		batch, err := set.Batch([]int{0, 1, 2}, locus.NewKey(seed))
		if err != nil {
			log.Fatal(err)
		}
		return locus.ToSlice[float32](batch[0])
	}
	fmt.Println(slices.Equal(draw(1), draw(1)), slices.Equal(draw(1), draw(2)))
	// Output:
	// true false
}

// Mirror images, left to right: each, with probability 1.
func ExampleRandomFlip() {
	row, err := data.NewTensorDataset(locus.From([]float32{1, 2, 3}, 1, 1, 1, 3))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := data.Map(row, data.RandomFlip(1)).Batch([]int{0}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(locus.ToSlice[float32](batch[0]))
	// Output:
	// [3 2 1]
}

// Halve images: each new pixel is the mean of those that it covers.
func ExampleResize() {
	square, err := data.NewTensorDataset(locus.From([]float32{1, 3, 5, 7}, 1, 1, 2, 2))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := data.Map(square, data.Resize(1, 1)).Batch([]int{0}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch[0].Item())
	// Output:
	// 4
}

// A transform of one's own: targets of one number become pairs of the number and its square.
func ExampleTransform() {
	set, err := data.NewTensorDataset(locus.Zeros(2, 3), locus.From([]float32{2, 3}, 2, 1))
	if err != nil {
		log.Fatal(err)
	}
	var square data.Transform = func(batch []*locus.Tensor, key locus.Key) []*locus.Tensor {
		y := batch[1]
		return []*locus.Tensor{batch[0], locus.Concat(1, y, y.Square())}
	}
	batch, err := data.Map(set, square).Batch([]int{0, 1}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(locus.ToSlice[float32](batch[1]))
	// Output:
	// [2 4 3 9]
}
