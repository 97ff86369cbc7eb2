//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// slowAlgorithm is the one that takes its time; others do not.
var slowAlgorithm uintptr

// What was timed once is chosen by the next process too, without timing and although the
// clock would say something else; not by one with another version of cuDNN, or which
// need not repeat its bits.
func TestChoicesAreStored(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("LOCUS_CACHE", folder)
	var ran []uintptr
	conv := purego.NewCallback(func(_, _, _, _, _, _, _, algorithm, _, _, _, _, _ uintptr) uintptr {
		ran = append(ran, algorithm)
		if algorithm == slowAlgorithm {
			time.Sleep(3 * time.Millisecond) // the host's time counts
		}
		return 0
	})
	stream := purego.NewCallback(func(_, _ uintptr) uintptr { return 0 })
	_, x := fakeRig(t)
	c := convCall(op.Conv2D, dtype.Float32, op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}, [4]int{2, 4, 8, 8}, [4]int{4, 4, 3, 3})
	for _, v := range []*backend.View{&c.In[0], &c.In[1], &c.Out} {
		*v = x.view(dtype.Float32, v.Shape)
	}
	// process returns what a new process chooses, and whether it measured.
	process := func(version uintptr, choices ...convChoice) (chosen uintptr, timed bool) {
		x.d.libs.dnn = &dnn{lib: &dnnLibrary{forward: conv, setStream: stream, version: version}, handle: 1, plans: map[convKey]*convPlan{}}
		x.d.libs.dnn.plans[convKeyOf(c)] = &convPlan{choices: choices, work: 1 << 40}
		ran = nil
		x.ok(x.d.Run(c))
		return ran[len(ran)-1], len(ran) > 1
	}
	six, seven, one := convChoice{algorithm: 6}, convChoice{algorithm: 7}, convChoice{algorithm: 1}

	slowAlgorithm = 6
	if got, timed := process(9, six, seven); got != 7 || !timed {
		t.Fatalf("the first process chose %d, timed %v", got, timed)
	}
	slowAlgorithm = 7
	if got, timed := process(9, six, seven); got != 7 || timed {
		t.Errorf("the second process chose %d, timed %v", got, timed)
	}
	if got, timed := process(10, six, seven); got != 6 || !timed {
		t.Errorf("another version of cuDNN chose %d, timed %v", got, timed)
	}
	// A choice that is not there any more.
	if got, timed := process(9, six, one); got == 7 || !timed {
		t.Errorf("without the stored choice: %d, timed %v", got, timed)
	}
	if got, timed := process(9, six, seven); got != 7 || timed {
		t.Errorf("then %d, timed %v", got, timed)
	}
	SetVarying(true)
	got, timed := process(9, six, seven)
	SetVarying(false)
	if got != 6 || !timed {
		t.Errorf("where bits may vary: %d, timed %v", got, timed)
	}
	// What is stored need not run before it is recorded.
	x.d.libs.dnn = &dnn{lib: &dnnLibrary{forward: conv, setStream: stream, version: 9}, handle: 1, plans: map[convKey]*convPlan{}}
	x.d.libs.dnn.plans[convKeyOf(c)] = &convPlan{choices: []convChoice{six, seven}, work: 1 << 40}
	ran = nil
	x.ok(x.record([]*backend.Call{x.randomCall(10, 1), c}).Replay())
	for _, a := range ran {
		if a != 7 {
			t.Errorf("recorded algorithm %d", a)
		}
	}
	// A damaged file is one without choices.
	files, _ := filepath.Glob(filepath.Join(folder, "choices", "*"))
	if len(files) != 2 {
		t.Fatalf("files: %v", files)
	}
	copied := t.TempDir()
	if err := os.MkdirAll(filepath.Join(copied, "choices"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(copied, "choices", filepath.Base(f)), []byte("conv2d\t7\tno checksum\n\x00"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("LOCUS_CACHE", copied)
	if got, timed := process(9, six, seven); got != 6 || !timed {
		t.Errorf("with a damaged file: %d, timed %v", got, timed)
	}
}

// Plans of one engine have different names, and our own kernels can be stored.
func TestNamesOfChoices(t *testing.T) {
	p := &convPlan{choices: []convChoice{{plan: 1, engine: 3}, {plan: 2, engine: 3}, {algorithm: 3}, {plan: 3, engine: 4}}}
	p.name()
	seen := map[string]bool{}
	for _, c := range p.choices {
		if seen[c.name] {
			t.Errorf("%q names two choices", c.name)
		}
		seen[c.name] = true
	}
	if !p.pick(p.choices[1].name) || p.choices[0].plan != 2 || p.pick("plan of engine 9, 0") {
		t.Errorf("picked %+v", p.choices[0])
	}
	if !p.pick(ownKernels) || p.chosen() != ownKernels {
		t.Errorf("chose %q", p.chosen())
	}
}
