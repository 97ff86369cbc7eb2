package data

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"sync"

	"github.com/locusml/locus"
)

// The handwritten digits are by E. Alpaydin and C. Kaynak: "Optical Recognition
// of Handwritten Digits", UCI Machine Learning Repository, 1998,
// https://doi.org/10.24432/C50P49, under CC BY 4.0. This is the test part of
// that data set, as scikit-learn ships it, packed by digits_gen.go.
//
//go:embed digits.gz
var digitsPacked []byte

const (
	digitsCount  = 1797
	digitsPixels = 64
)

var digitNames = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// Digits returns the 1,797 handwritten digits of the UCI Machine Learning
// Repository, which are part of this package: images of 8×8 pixels from 0 to 1
// (float32, shape (n, 1, 8, 8)) and their classes, on the CPU. They are by
// E. Alpaydin and C. Kaynak, under CC BY 4.0: https://doi.org/10.24432/C50P49.
func Digits() (*Classified, error) {
	images, labels, err := unpackDigits()
	if err != nil {
		return nil, fmt.Errorf("data: digits: %w", err)
	}
	var x, y *locus.Tensor
	if err := locus.Try(func() {
		x = locus.CPU().From(images, digitsCount, 1, 8, 8)
		y = locus.CPU().From(labels)
	}); err != nil {
		return nil, err
	}
	return NewClassified(x, y, digitNames)
}

// DigitsSplit splits the digits, by key, into 1,437 for training and 360 for
// testing.
func DigitsSplit(key locus.Key) (train, test *Classified, err error) {
	all, err := Digits()
	if err != nil {
		return nil, nil, err
	}
	parts, err := Split(all, key, -1, 360)
	if err != nil {
		return nil, nil, err
	}
	return &Classified{parts[0], digitNames}, &Classified{parts[1], digitNames}, nil
}

var digitsRaw = sync.OnceValues(func() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(digitsPacked))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(z)
	if err == nil && len(raw) != digitsCount*(1+digitsPixels) {
		err = fmt.Errorf("%d bytes", len(raw))
	}
	return raw, err
})

func unpackDigits() (images []float32, labels []int64, err error) {
	raw, err := digitsRaw()
	if err != nil {
		return nil, nil, err
	}
	images, labels = make([]float32, digitsCount*digitsPixels), make([]int64, digitsCount)
	for i := range digitsCount {
		labels[i] = int64(raw[i])
		for p := range digitsPixels {
			images[i*digitsPixels+p] = float32(raw[(1+p)*digitsCount+i]) / 16
		}
	}
	return images, labels, nil
}
