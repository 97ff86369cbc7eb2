package mpi

import (
	"slices"
	"testing"
)

func TestLaunched(t *testing.T) {
	for name, want := range map[string]Family{"OMPI_COMM_WORLD_SIZE": OpenMPI, "PMI_SIZE": MPICH, "PMI_FD": MPICH, "SLURM_PROCID": ""} {
		if got := Launched(func(n string) string { return map[string]string{name: "1"}[n] }); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	n, at, err := counts([]int{0, 3, 3, 7})
	if err != nil || !slices.Equal(n, []int32{3, 0, 4}) || !slices.Equal(at, []int32{0, 3, 3}) {
		t.Error(n, at, err)
	}
	if _, _, err := counts([]int{0, 1 << 31}); err == nil {
		t.Error("more elements than MPI can count")
	}
}

// Pieces cover everything once.
func TestPieces(t *testing.T) {
	for _, n := range []int{0, 1, pieceSize, pieceSize + 1, 3*pieceSize - 1} {
		at := 0
		if err := pieces(n, 1, func(from, to int) error {
			if from != at || to <= from || to-from > pieceSize {
				t.Errorf("%d: from %d to %d", n, from, to)
			}
			at = to
			return nil
		}); err != nil || at != n {
			t.Error(n, at, err)
		}
	}
}
