package model

import (
	"fmt"
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
	Input       []int // shape of one example
}

// OpenData reads data by name. digits are part of the program; the others are
// files, looked for as from says.
func OpenData(name string, from data.Source) (Set, error) {
	s := Set{Name: name}
	var err error
	switch name {
	case "digits":
		// The split is the same whatever a run's seed, so that a test set stays one.
		s.Train, s.Test, err = data.DigitsSplit(locus.NewKey(0))
	case "fashion-mnist":
		s.Train, s.Test, err = data.FashionMNIST(from)
	case "mnist":
		s.Train, s.Test, err = data.MNIST(from)
	default:
		return s, fmt.Errorf("there is no data %q; there are %s", name, strings.Join(DataNames, ", "))
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
