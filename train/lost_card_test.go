//go:build linux && (amd64 || arm64) && !nocuda

package train_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/internal/dynlib"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/train"
)

// trapKernel ends with a trap, after which the driver does nothing more in this process.
const trapKernel = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry boom() { trap; }\n\x00"

// loseCard runs it beside what is queued.
func loseCard(d locus.Device) error {
	l := dynlib.Library{Name: "the driver", Names: []string{"libcuda.so.1"}, Folders: dynlib.System()}
	h, err := l.Open()
	if err != nil {
		return err
	}
	var load func(module *uintptr, image []byte) int32
	var find func(f *uintptr, module uintptr, name string) int32
	var launch func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream, params, extra uintptr) int32
	if err := h.Functions(map[string]any{"cuModuleLoadData": &load, "cuModuleGetFunction": &find, "cuLaunchKernel": &launch}); err != nil {
		return err
	}
	_, err = lend.Backend(d.Zeros(1)).(*cuda.Device).Foreign(nil, nil, func(stream uintptr) error {
		module, f := new(uintptr), new(uintptr)
		for i, call := range []func() int32{
			func() int32 { return load(module, []byte(trapKernel)) },
			func() int32 { return find(f, *module, "boom") },
			func() int32 { return launch(*f, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0) },
		} {
			if r := call(); r != 0 {
				return fmt.Errorf("call %d: CUDA error %d", i, r)
			}
		}
		return nil
	}, func() {})
	return err
}

// A real card whose context breaks in the middle of a run, in a process of its own: Fit
// returns which GPU was lost, the CPU goes on, and the checkpoint is whole. Not under MPS,
// where a trap ends all processes.
func TestLostOnACard(t *testing.T) {
	d := card(t)
	set := train.Data{Train: spirals(t, 97), Validation: spirals(t, 40), BatchSize: 16}
	opts := func(more ...train.Option) []train.Option {
		return append([]train.Option{train.MaxEpochs(4), train.Seed(5), train.Devices(d)}, more...)
	}
	if how := os.Getenv("LOCUS_TEST_LOSE"); how != "" {
		dir, compiled, _ := strings.Cut(how, "|")
		_, err := train.New(opts(train.Checkpoints(dir, 2), train.Compile(compiled == "true"), train.AfterStep(func(s *train.Step) error {
			if s.Steps == 17 { // in the third epoch
				return loseCard(d)
			}
			return nil
		}))...).Fit(mlp(3), set)
		fmt.Printf("Fit: %v\nlost: %v, again: %v, the CPU: %v\n", err, errors.Is(err, locus.ErrDeviceLost), errors.Is(d.Synchronize(), locus.ErrDeviceLost), locus.Ones(3).Sum().Item())
		os.Exit(3)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, compiled := range []bool{false, true} {
		t.Run(fmt.Sprint("compiled ", compiled), func(t *testing.T) {
			dir := t.TempDir()
			c := exec.CommandContext(t.Context(), exe, "-test.run=^TestLostOnACard$")
			c.Env = append(os.Environ(), fmt.Sprintf("LOCUS_TEST_LOSE=%s|%v", dir, compiled))
			out, err := c.CombinedOutput()
			t.Logf("%s", out)
			if c.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "lost: true, again: true, the CPU: 3") || !strings.Contains(string(out), d.String()+": ") {
				t.Fatalf("the process ended with %v", err)
			}
			again, whole := mlp(3), mlp(3)
			must(t)(train.New(opts(train.Compile(compiled), train.Checkpoints(dir, 2), train.Resume())...).Fit(again, set))
			must(t)(train.New(opts(train.Compile(compiled))...).Fit(whole, set))
			if !slices.Equal(weights(again), weights(whole)) {
				t.Error("the run that went on ended with other weights")
			}
		})
	}
}
