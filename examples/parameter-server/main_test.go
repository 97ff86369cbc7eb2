package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(t.Context(), &b, 3, 40); err != nil {
		t.Fatal(err)
	}
	var losses [2]float64
	for i, name := range []string{"parameter server", "all-reduce"} {
		_, after, _ := strings.Cut(b.String(), "\n"+name)
		if _, err := fmt.Sscanf(strings.TrimSpace(after), "%f", &losses[i]); err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
	}
	// Both ways are the same arithmetic, up to the order of sums.
	if math.Abs(losses[0]-losses[1]) > 1e-3*losses[1] || losses[0] > 0.5 {
		t.Errorf("the losses are %v\n%s", losses, b.String())
	}
}

// What several ranks push is added up once, under its name alone; all of them pull it.
func TestStore(t *testing.T) {
	const size = 3
	groups, err := collective.Local(slices.Repeat([]locus.Device{locus.CPU()}, size))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() {
			defer g.Close()
			s := &store{g, map[string]*locus.Tensor{}}
			for _, name := range []string{"a", "b", "c", "weight"} {
				s.set(name, locus.Full(10, 2))
			}
			for range 2 {
				if err := s.push(t.Context(), "weight", locus.Full(float64(i+1), 2), 0.5); err != nil {
					t.Error(err)
				}
			}
			got, err := s.pull(t.Context(), "weight", locus.Zeros(2))
			if err != nil || !slices.Equal(locus.ToSlice[float32](got), []float32{16, 16}) {
				t.Errorf("rank %d pulls %v, want 16 (%v)", i, got, err)
			}
			got, err = s.pull(t.Context(), "b", locus.Zeros(2))
			if err != nil || locus.ToSlice[float32](got)[0] != 10 {
				t.Errorf("b is %v (%v)", got, err)
			}
			if len(s.kept) == 4 {
				t.Errorf("rank %d keeps everything", i)
			}
		})
	}
	all.Wait()
}
