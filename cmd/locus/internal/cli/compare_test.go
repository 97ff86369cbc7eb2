package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	args := []string{"train", "--model", "softmax", "--limit", "150", "--epochs", "2"}
	good(t, append(args, "--out", a)...)
	good(t, append(args, "--out", b, "--lr", "0.0001", "--batch", "50")...)
	s := good(t, "compare", a, filepath.Join(b, "weights.safetensors"))
	lines := strings.Split(s, "\n")
	if !strings.Contains(lines[0], "batch") || !strings.Contains(lines[0], "lr") || strings.Contains(lines[0], "seed") || !strings.Contains(lines[2], "0.0001") || !strings.Contains(s, "best: "+a) {
		t.Error(s)
	}
	var runs []struct {
		Path string
		Run  struct{ Hyperparameters map[string]any }
	}
	parse(t, good(t, "compare", a, b, "--json"), &runs)
	if len(runs) != 2 || runs[1].Run.Hyperparameters["lr"] != 0.0001 {
		t.Errorf("%+v", runs)
	}
	picture := filepath.Join(dir, "runs.svg")
	good(t, "compare", a, filepath.Join(b, "weights.safetensors"), "--picture", picture)
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">loss<", ">accuracy<", ">throughput<", ">memory<", ">a training<", ">b validation<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	for _, c := range []struct{ path, want string }{{dir, "no curves.csv"}, {filepath.Join(dir, "none"), "no such file"}} {
		if r := call("80", "compare", c.path, "--picture", picture); r.code != ExitFailure || !strings.Contains(r.err, c.want) {
			t.Errorf("%+v", r)
		}
	}
	if got := fmt.Sprint(runNames([]string{"x/a", "y/a/weights.safetensors", "b/"})); got != "[x/a y/a b]" {
		t.Error(got)
	}
	foreign := filepath.Join(dir, "w.safetensors")
	if err := weights.Save(foreign, map[string]*locus.Tensor{"x": locus.Ones(1)}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{{foreign, "does not say"}, {dir, "not a run"}, {filepath.Join(dir, "none"), "no such file"}} {
		if r := call("80", "compare", c.path); r.code != ExitFailure || !strings.Contains(r.err, c.want) {
			t.Errorf("%+v", r)
		}
	}
	if r := call("80", "compare"); r.code != ExitUsage {
		t.Errorf("%+v", r)
	}
}
