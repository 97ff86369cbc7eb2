package train_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/locusml/locus/train"
)

// A GPU reads what the CPU's program sends it when its queue comes to it. The program has gone
// on by then, and must not have written over it.
func TestProgramsOfCPUAndGPU(t *testing.T) {
	for _, seed := range []uint64{124, 172} { // on both, with a layer that is frozen in the middle
		var want string
		for i := range 12 {
			r := newRandomRun(randomBytes(seed))
			if len(r.Devices) != 2 {
				t.Fatalf("run %d is on %v; choose another", seed, r.Devices)
			}
			o := r.fit(t, filepath.Join(t.TempDir(), fmt.Sprint(i)), 0, train.Compile(i > 0))
			if got := fmt.Sprint(o.err, o.values); i == 0 {
				want = got
			} else if got != want {
				t.Fatalf("run %d, compiled, time %d: other values than eager", seed, i)
			}
		}
	}
}
