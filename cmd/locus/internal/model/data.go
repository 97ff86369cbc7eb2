package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// DataNames lists the data that the command knows by name.
var DataNames = []string{"digits", "fashion-mnist", "mnist"}

// Set is data to learn from and to test with.
type Set struct {
	Name        string
	Train, Test *data.Classified
	Input       []int         // shape of one example
	Own         bool          // a folder of the user's images
	Encoder     *data.Encoder // of a table; else nil
	Scaler      *data.Scaler  // of the numbers to learn; nil for classes
}

// Outputs is how many numbers a network returns: one per class, or the number to learn.
func (s Set) Outputs() int { return outputs(s.Train.Classes, s.Scaler) }

func outputs(classes []string, scaler *data.Scaler) int {
	if scaler != nil {
		return 1
	}
	return len(classes)
}

// Options say how data is read.
type Options struct {
	Source data.Source
	Size   int    // of images of a folder, in pixels per side; 0: DefaultSize
	Target string // the column of a table to learn; "": the last
	Task   string // of Tasks; "" is auto
	As     *Card  // a table is encoded as for this network; nil: an encoder learns from the table
}

// DefaultSize is the side in pixels that images of a folder are brought to.
const DefaultSize = 32

// IsFolder reports whether data is a folder of images, not a name.
func IsFolder(name string) bool {
	if slices.Contains(DataNames, name) {
		return false
	}
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// openFolder reads the images of a folder in which each class has a folder: all of
// "train" and "test" if it has these two, else a fifth of it is to test with.
func openFolder(path string, size int) (learn, test *data.Classified, err error) {
	o := data.ImageOptions{Height: size, Width: size}
	if parts := []string{filepath.Join(path, "train"), filepath.Join(path, "test")}; IsFolder(parts[0]) && IsFolder(parts[1]) {
		if learn, err = data.ImageFolder(parts[0], o); err != nil {
			return nil, nil, err
		}
		if test, err = data.ImageFolder(parts[1], o); err != nil {
			return nil, nil, err
		}
		if !slices.Equal(learn.Classes, test.Classes) {
			return nil, nil, fmt.Errorf("%s: the classes in train are %s, in test %s", path, strings.Join(learn.Classes, ", "), strings.Join(test.Classes, ", "))
		}
		return learn, test, nil
	}
	all, err := data.ImageFolder(path, o)
	if err != nil {
		return nil, nil, err
	}
	n := max(1, all.Len()/5)
	if len(all.Classes) < 2 || all.Len() < 2 {
		return nil, nil, fmt.Errorf("%s: %d images of %d classes; want a folder for each of at least two classes", path, all.Len(), len(all.Classes))
	}
	// The split is the same whatever a run's seed, so that a test set stays one.
	parts, err := data.Split(all, locus.NewKey(0), all.Len()-n, n)
	if err != nil {
		return nil, nil, err
	}
	return &data.Classified{Dataset: parts[0], Classes: all.Classes}, &data.Classified{Dataset: parts[1], Classes: all.Classes}, nil
}

// OpenData reads data by name. digits are part of the program; the others are
// files: looked for as o says, or the user's own, images in a folder or a table.
func OpenData(name string, o Options) (Set, error) {
	s := Set{Name: name}
	var err error
	from, size := o.Source, o.Size
	if size == 0 {
		size = DefaultSize
	}
	switch {
	case IsTable(name):
		s, err = openTable(name, o)
	case IsFolder(name):
		s.Own = true
		s.Train, s.Test, err = openFolder(name, size)
	case name == "digits":
		// The split is the same whatever a run's seed, so that a test set stays one.
		s.Train, s.Test, err = data.DigitsSplit(locus.NewKey(0))
	case name == "fashion-mnist":
		s.Train, s.Test, err = data.FashionMNIST(from)
	case name == "mnist":
		s.Train, s.Test, err = data.MNIST(from)
	default:
		return s, fmt.Errorf("there is no data %q; there are %s, folders of images, and CSV files", name, strings.Join(DataNames, ", "))
	}
	if err != nil {
		return s, err
	}
	one, err := s.Test.Batch([]int{0}, locus.NewKey(0))
	if err != nil {
		return s, err
	}
	s.Input = slices.Clone(one[0].Shape()[1:])
	return s, nil
}

// Limit keeps the first n examples of each part; 0 keeps all.
func (s *Set) Limit(n int) error {
	for _, part := range []**data.Classified{&s.Train, &s.Test} {
		if n <= 0 || n >= (*part).Len() {
			continue
		}
		at := make([]int, n)
		for i := range at {
			at[i] = i
		}
		d, err := data.Subset(*part, at)
		if err != nil {
			return err
		}
		*part = &data.Classified{Dataset: d, Classes: (*part).Classes}
	}
	return nil
}
