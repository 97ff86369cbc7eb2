//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/cmd/locus/internal/inspect"
)

// A GPU that is lost in the middle of a run: one line that names it and the op, a code that
// is not zero, and a checkpoint to go on from.
func TestTrainLosesGPU(t *testing.T) {
	for name, flags := range map[string][]string{
		"compiled": {"--device", "gpu:0"},
		"eager":    {"--device", "gpu:0", "--compile=false"},
		"mirrored": {"--gpus", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "run")
			args := append([]string{"train", "--virtual-gpus", "2", "--model", "softmax", "--limit", "400", "--epochs", "500", "--out", out}, flags...)
			c, _, errs := child(t, args...)
			c.Env = append(c.Env, "LOCUS_LOSE_GPU=0:3000")
			code := exitCode(c.Run())
			said := withoutProgress(errs.String())
			if code != ExitFailure || !strings.Contains(said, "gpu:0: virtual GPU 0 is lost") || !strings.Contains(said, "--resume") || strings.Contains(said, "goroutine") {
				t.Fatalf("exit code %d\n%s", code, errs)
			}
			f, err := inspect.Look(filepath.Join(out, "checkpoints"), false, 0)
			if err != nil {
				t.Fatal(err)
			}
			var state struct{ Epoch int }
			parse(t, string(f.State), &state)
			if state.Epoch < 2 {
				t.Fatalf("lost in epoch %d: too early to see anything", state.Epoch)
			}
			where := []string{"--device", "gpu:1"} // on the GPU that is left
			more := fmt.Sprint(state.Epoch + 1)
			c, said2, errs := child(t, slices.Concat([]string{"train", "--virtual-gpus", "2", "--resume", "--epochs", more, "--out", out, "--accept", "gpus"}, where)...)
			if code := exitCode(c.Run()); code != 0 || !strings.Contains(said2.String(), "of "+more+")") {
				t.Errorf("resumed: exit code %d\n%s%s", code, said2, errs)
			}
		})
	}
}

// A run that is lost before its first checkpoint does not offer those of an earlier run in the
// same folder as its own.
func TestTrainLosesGPUEarly(t *testing.T) {
	args := []string{"train", "--virtual-gpus", "1", "--device", "gpu:0", "--model", "softmax", "--limit", "64", "--epochs", "1", "--out", filepath.Join(t.TempDir(), "run")}
	for _, lose := range []string{"", "0:1"} {
		c, _, errs := child(t, args...)
		want := 0
		if lose != "" {
			c.Env, want = append(c.Env, "LOCUS_LOSE_GPU="+lose), ExitFailure
		}
		if code := exitCode(c.Run()); code != want || strings.Contains(errs.String(), "is whole") {
			t.Fatalf("LOCUS_LOSE_GPU=%s: exit code %d\n%s", lose, code, errs)
		}
	}
}

// One of two ranks loses its GPU: the other is told which rank it was, the launcher ends with
// one code, and where it was asked to it starts all again, from the last checkpoint.
func TestLaunchLosesGPU(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCUS_MPI", "off")
	for _, restarts := range []string{"0", "1"} {
		t.Run(restarts, func(t *testing.T) {
			dir := t.TempDir()
			out, once := filepath.Join(dir, "run"), filepath.Join(dir, "once")
			script := `if [ "$RANK" = 1 ] && mkdir "` + once + `" 2>/dev/null; then export LOCUS_LOSE_GPU=0:1500; fi; exec "$0" "$@"`
			c, said, errs := child(t, "launch", "-n", "2", "--restarts", restarts, "--", "sh", "-c", script, exe,
				"train", "--virtual-gpus", "1", "--device", "gpu:0", "--model", "softmax", "--limit", "400", "--epochs", "60", "--out", out, "--resume")
			code := exitCode(c.Run())
			all := said.String() + errs.String()
			if !strings.Contains(all, "[1] ") || !strings.Contains(all, "gpu:0: virtual GPU 0 is lost") || !strings.Contains(all, "rank 1") {
				t.Errorf("what was said:\n%s", all)
			}
			if want := map[string]int{"0": ExitFailure, "1": 0}[restarts]; code != want {
				t.Errorf("exit code %d, want %d\n%s", code, want, all)
			}
			f, err := inspect.Look(filepath.Join(out, "checkpoints"), false, 0)
			if err != nil {
				t.Fatal(err)
			}
			var state struct{ Epoch int }
			parse(t, string(f.State), &state)
			if restarts == "0" && (state.Epoch == 0 || state.Epoch == 60) || restarts == "1" && state.Epoch != 60 {
				t.Errorf("the last checkpoint is of epoch %d", state.Epoch)
			}
		})
	}
}
