package collective_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// The error of the rank that fails is returned, not that of those who wait for it.
func TestRunLocal(t *testing.T) {
	three := slices.Repeat([]locus.Device{locus.CPU()}, 3)
	sums := make([]float64, 3)
	if err := collective.RunLocal(three, func(g *collective.Group, d locus.Device) error {
		sum, err := g.AllReduce(t.Context(), d.Full(float64(g.Rank()), 1), collective.Sum).Wait()
		if err == nil {
			sums[g.Rank()] = sum.Item()
		}
		return err
	}); err != nil || !slices.Equal(sums, []float64{3, 3, 3}) {
		t.Error(sums, err)
	}

	broken := errors.New("the disk is full")
	for name, fail := range map[string]func() error{
		"an error": func() error { return broken },
		"a panic":  func() error { locus.Ones(2).Add(locus.Ones(3)); return nil },
	} {
		waited := make([]error, 3)
		err := collective.RunLocal(three, func(g *collective.Group, d locus.Device) error {
			if g.Rank() == 1 {
				return fail()
			}
			_, waited[g.Rank()] = g.AllReduce(t.Context(), d.Ones(1), collective.Sum).Wait()
			return waited[g.Rank()]
		})
		if name == "an error" && err != broken || name == "a panic" && !errors.Is(err, locus.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
		if waited[0] == nil || waited[2] == nil {
			t.Errorf("%s: the others got %v", name, waited)
		}
	}

	if err := collective.RunLocal(three, nil); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "RunLocal") {
		t.Error(err)
	}
	if err := collective.RunLocal(nil, func(*collective.Group, locus.Device) error { return nil }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}
