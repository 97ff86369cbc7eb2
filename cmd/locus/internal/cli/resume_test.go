package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus/cmd/locus/internal/text"
)

// A run that goes on takes the flags of the run before; others are an error that
// names them, and can be accepted.
func TestResumeComparesFlags(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	good(t, "train", "--model", "softmax", "--limit", "100", "--batch", "10", "--lr", "0.05", "--optimizer", "sgd", "--seed", "4", "--epochs", "1", "--out", out)
	good(t, "train", "--epochs", "2", "--out", out, "--resume")
	for flag, c := range map[string]struct{ value, was string }{"lr": {"0.5", "was 0.05, is 0.5"}, "batch": {"20", "was 10, is 20"}, "limit": {"80", "was 100, is 80"}, "clip": {"1", "was 0, is 1"}} {
		r := call("80", "train", "--epochs", "3", "--out", out, "--resume", "--"+flag, c.value)
		if r.code != ExitFailure || !strings.Contains(r.err, "--"+flag+": ") || !strings.Contains(r.err, c.was) || !strings.Contains(r.err, "--accept "+flag) || strings.Contains(r.err, "train.AcceptChanges") {
			t.Errorf("%s: %+v", flag, r)
		}
	}
	good(t, "train", "--epochs", "3", "--out", out, "--resume", "--lr", "0.5", "--batch", "20", "--accept", "lr,batch")
	if r := call("80", "train", "--epochs", "3", "--out", out, "--resume", "--accept", "banana"); r.code != ExitUsage || !strings.Contains(r.err, "optimizer") {
		t.Errorf("%+v", r)
	}
}

// A run without --out replaces no earlier one; --resume goes on with the last.
func TestDefaultRunsGetFoldersOfTheirOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	args := []string{"train", "--model", "softmax", "--limit", "100", "--epochs", "1"}
	good(t, args...)
	first, err := os.ReadFile("runs/digits-softmax/weights.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	good(t, append(args, "--seed", "7")...)
	if again, err := os.ReadFile("runs/digits-softmax/weights.safetensors"); err != nil || !bytes.Equal(first, again) {
		t.Error("the weights of the first run were replaced", err)
	}
	if _, err := os.Stat("runs/digits-softmax-2/weights.safetensors"); err != nil {
		t.Error(err)
	}
	r := call("80", "train", "--model", "softmax", "--epochs", "2", "--resume")
	if r.code != 0 || !strings.Contains(r.out, "runs/digits-softmax-2/") || !strings.Contains(r.out, "epoch") {
		t.Errorf("%+v", r)
	}
	// A folder that was asked for by name is used, with a word.
	if r := call("80", append(args, "--out", "runs/digits-softmax")...); r.code != 0 || !strings.Contains(r.err, "will be replaced") {
		t.Errorf("%+v", r)
	}
}

// The weights are those of the best epoch.
func TestTheBestEpochIsKept(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	var run struct {
		Epochs []struct {
			Epoch int
			Best  bool
			Test  map[string]float64
		}
		Run struct{ Result map[string]float64 }
	}
	parse(t, good(t, "train", "--model", "softmax", "--optimizer", "sgd", "--lr", "3", "--limit", "150", "--epochs", "12", "--out", out, "--json"), &run)
	best := 0.0
	for _, e := range run.Epochs {
		best = max(best, e.Test["accuracy"])
	}
	if last := run.Epochs[len(run.Epochs)-1].Test["accuracy"]; last == best {
		t.Fatalf("the test's fault: the last epoch is the best, %v", best)
	}
	if run.Run.Result["test_accuracy"] != best {
		t.Errorf("kept an epoch with %v, the best had %v", run.Run.Result["test_accuracy"], best)
	}
}

// A run into a pipe prints lines as it goes on.
func TestLinesOfProgress(t *testing.T) {
	var out, errs bytes.Buffer
	env := func(string) string { return "" }
	a := &app{in: strings.NewReader(""), out: text.New(&out, env), err: text.New(&errs, env), rawErr: &errs, env: env} // a line each epoch
	if err := a.run(context.Background(), []string{"train", "--model", "softmax", "--limit", "100", "--epochs", "3", "--out", "none"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"epoch 1 of 3: loss ", "epoch 3 of 3: loss ", "test accuracy"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in %q", want, errs.String())
		}
	}
}
