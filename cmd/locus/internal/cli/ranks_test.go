//go:build unix

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/locusml/locus/cmd/locus/internal/inspect"
)

// Processes that locus launch starts train one network together, over TCP.
func TestTrainAsRanks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCUS_MPI", "off")
	type run struct {
		Epochs []struct{ Train, Test map[string]float64 }
	}
	train := func(args ...string) (r run) {
		t.Helper()
		c, out, errs := child(t, args...)
		if err := c.Run(); err != nil {
			t.Fatalf("%v\n%s", err, errs)
		}
		var text []string
		for _, l := range strings.Split(out.String(), "\n") {
			if strings.HasPrefix(l, "[1]") {
				t.Errorf("rank 1 says %q", l)
			}
			text = append(text, strings.TrimPrefix(l, "[0] "))
		}
		if err := json.Unmarshal([]byte(strings.Join(text, "\n")), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r
	}
	dir := t.TempDir()
	flags := func(out string, epochs int) []string {
		return []string{"train", "--json", "--limit", "330", "--batch", "64", "--seed", "3", "--device", "cpu", "--epochs", fmt.Sprint(epochs), "--out", filepath.Join(dir, out)}
	}
	launched := func(args ...string) run {
		t.Helper()
		return train(append([]string{"launch", "-n", "2", "--", exe}, args...)...)
	}
	one := train(flags("one", 3)...)
	two := launched(flags("two", 3)...)
	for i := range one.Epochs {
		for name, v := range one.Epochs[i].Train {
			if w := two.Epochs[i].Train[name]; math.Abs(v-w) > 1e-4 {
				t.Errorf("epoch %d: %s is %v with two ranks, %v with one", i, name, w, v)
			}
		}
		for name, v := range one.Epochs[i].Test {
			if w := two.Epochs[i].Test[name]; math.Abs(v-w) > 1e-3 {
				t.Errorf("epoch %d: test %s is %v with two ranks, %v with one", i, name, w, v)
			}
		}
	}
	// In two parts, to the same bits; and by one rank, which then is alone.
	launched(flags("parts", 2)...)
	launched(append(flags("parts", 3), "--resume")...)
	weights := func(out string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, out, "weights.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return b[len(b)-4*19210:] // without the heading, which has the options
	}
	if !bytes.Equal(weights("two"), weights("parts")) {
		t.Error("a run in two parts has other weights than one in one")
	}
	if r := train(append(flags("parts", 4), "--resume")...); len(r.Epochs) != 4 {
		t.Errorf("%d epochs", len(r.Epochs))
	}
}

// Ctrl-C at the launcher ends all ranks with a checkpoint and one exit code.
func TestInterruptRanks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCUS_MPI", "off")
	out := filepath.Join(t.TempDir(), "run")
	c, _, errs := child(t, "launch", "-n", "2", exe, "train", "--model", "softmax", "--device", "cpu", "--epochs", "1000000", "--out", out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(out, "checkpoints")
	eventually(t, "a checkpoint", func() bool {
		found, _ := filepath.Glob(filepath.Join(folder, "checkpoint-*"))
		return len(found) > 1
	})
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(c.Wait()); got != ExitTerminated || !strings.Contains(errs.String(), "[0] locus: interrupted; the run is in") {
		t.Errorf("exit code %d\n%s", got, errs)
	}
	if _, err := inspect.Look(folder, false, 0); err != nil {
		t.Error(err)
	}
}

// Synchronized statistics and a divided optimizer are flags, and a run that goes on has them.
func TestTrainAsRanksFlags(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCUS_MPI", "off")
	dir := t.TempDir()
	loss := func(out string, n int, args ...string) []float64 {
		t.Helper()
		all := append([]string{"train", "--json", "--model", "resnet", "--limit", "40", "--batch", "8", "--seed", "3", "--device", "cpu", "--epochs", "2", "--out", filepath.Join(dir, out)}, args...)
		if n > 1 {
			all = append([]string{"launch", "-n", fmt.Sprint(n), "--", exe}, all...)
		}
		c, said, errs := child(t, all...)
		if err := c.Run(); err != nil {
			t.Fatalf("%v\n%s", err, errs)
		}
		var r struct {
			Epochs []struct{ Train map[string]float64 }
		}
		if err := json.Unmarshal([]byte(strings.ReplaceAll("\n"+said.String(), "\n[0] ", "\n")), &r); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		var l []float64
		for _, e := range r.Epochs {
			l = append(l, e.Train["loss"])
		}
		return l
	}
	near := func(a, b []float64) bool { return math.Abs(a[0]-b[0]) < 1e-3 && math.Abs(a[1]-b[1]) < 1e-2 }
	one := loss("one", 1)
	if l := loss("apart", 2); near(one, l) {
		t.Errorf("statistics of each rank give the losses %v, as those of one device, %v: the test sees nothing", l, one)
	}
	if l := loss("synced", 2, "--sync-batch-norm", "--shard-optimizer"); !near(one, l) {
		t.Errorf("synchronized statistics give the losses %v, one device %v", l, one)
	}
	b, err := os.ReadFile(filepath.Join(dir, "synced", "checkpoints", "run.json"))
	if err != nil {
		files, _ := filepath.Glob(filepath.Join(dir, "synced", "checkpoints", "*"))
		t.Fatal(err, files)
	}
	if !strings.Contains(string(b), `"sync-batch-norm": true`) || !strings.Contains(string(b), `"shard-optimizer": true`) {
		t.Errorf("what a run that goes on reads: %s", b)
	}
}
