package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/weights"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain lets tests start this program as a child: see child_test.go.
func TestMain(m *testing.M) {
	if os.Getenv("LOCUS_TEST_CHILD") != "" {
		os.Exit(Main(os.Args[1:], Standard()))
	}
	os.Exit(m.Run())
}

// result is what a call of the command left.
type result struct {
	out, err string
	code     int
}

// call runs the command as main does, at a width.
func call(width string, args ...string) result {
	var out, err bytes.Buffer
	env := func(name string) string {
		if name == "COLUMNS" {
			return width
		}
		return ""
	}
	code := Main(args, Streams{In: strings.NewReader(""), Out: &out, Err: &err, Env: env})
	return result{out.String(), err.String(), code}
}

// good runs the command and wants it to succeed, within the width and without
// colors.
func good(t *testing.T, args ...string) string {
	t.Helper()
	r := call("80", args...)
	if r.code != 0 {
		t.Fatalf("locus %s: exit code %d\n%s", strings.Join(args, " "), r.code, r.err)
	}
	if strings.Contains(r.out+r.err, "\x1b") {
		t.Errorf("locus %s: colors without a terminal", strings.Join(args, " "))
	}
	return r.out
}

func fits(t *testing.T, s string, width int) {
	t.Helper()
	for _, l := range strings.Split(s, "\n") {
		if text.Len(l) > width {
			t.Errorf("%d columns where there are %d: %s", text.Len(l), width, l)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
	}
}

var commands = []string{"tour", "devices", "doctor", "bench", "train", "predict", "launch", "inspect", "compare", "convert", "version"}

func TestHelp(t *testing.T) {
	golden(t, "help.txt", good(t, "--help"))
	if good(t) != good(t, "--help") || good(t) != good(t, "help") {
		t.Error("no arguments, help and --help differ")
	}
	for _, c := range commands {
		s := good(t, c, "--help")
		golden(t, "help-"+c+".txt", s)
		fits(t, s, 80)
		wide := call("160", c, "--help").out
		fits(t, wide, 160)
	}
}

func TestVersion(t *testing.T) {
	s := good(t, "--version")
	if !regexp.MustCompile(`^locus \S+, \w+/\w+, go1\.\d+`).MatchString(s) || s != good(t, "version") {
		t.Errorf("%q", s)
	}
	var b build
	if err := json.Unmarshal([]byte(good(t, "version", "--json")), &b); err != nil || b.Go == "" || b.Platform == "" || b.Version == "" {
		t.Errorf("%v %+v", err, b)
	}
	defer func(old string) { Release = old }(Release)
	if Release = "v9.8.7"; !strings.HasPrefix(good(t, "--version"), "locus v9.8.7,") {
		t.Errorf("%q", good(t, "--version"))
	}
}

// One clear message on standard error, nothing on standard output, the right code.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.safetensors")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("x"), 100), 0o666); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain.safetensors")
	if err := weights.Save(plain, map[string]*locus.Tensor{"a": locus.Ones(2)}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"trian", ExitUsage, "unknown command"},
		{"train --modle mlp", ExitUsage, "unknown flag: --modle"},
		{"train extra", ExitUsage, "extra"},
		{"train --model vgg", ExitUsage, "softmax, mlp, lenet, resnet"},
		{"train --data cifar", ExitUsage, "fashion-mnist"},
		{"train --optimizer lion", ExitUsage, "adam, sgd"},
		{"train --epochs -1", ExitUsage, "--epochs -1"},
		{"train --epochs many", ExitUsage, "--epochs"},
		{"train --batch -5", ExitUsage, "--batch -5"},
		{"train --lr -1", ExitUsage, "--lr -1"},
		{"train --lr NaN", ExitUsage, "--lr NaN"},
		{"train --clip -1", ExitUsage, "--clip -1"},
		{"train --limit -1", ExitUsage, "--limit"},
		{"train --precision fp8", ExitUsage, "float32, bf16 or fp16"},
		{"train --device gpu:900", ExitUsage, "there is no gpu:900; visible are cpu"},
		{"train --device gup", ExitUsage, "not a device"},
		{"train --gpus 900", ExitUsage, "there is no gpu:899"},
		{"train --gpus -1", ExitUsage, "--gpus -1"},
		{"train --device cpu --gpus 1", ExitUsage, "choose one of them"},
		{"train --resume --out none", ExitUsage, "--checkpoints"},
		{"train --data mnist --data-dir " + dir + " --out none", ExitFailure, "train-images"},
		{"train --out " + garbage + "/x", ExitFailure, "garbage"},
		{"train --virtual-gpus none", ExitUsage, "--virtual-gpus none"},
		{"train --virtual-gpus 2:big", ExitUsage, "not a size"},
		{"train --board=300.0.0.1:99999 --out none", ExitFailure, "99999"},
		{"predict", ExitUsage, "at least 1 arg"},
		{"predict " + dir + "/none", ExitFailure, "none: no such file"},
		{"predict " + garbage, ExitFailure, "garbage"},
		{"predict " + plain, ExitFailure, "give --model and --data"},
		{"predict " + plain + " --model mlp --data digits", ExitFailure, "not the weights of a mlp"},
		{"predict " + plain + " --model mlp --data nothing", ExitFailure, `no data "nothing"`},
		{"predict " + plain + " --top 0", ExitUsage, "--top"},
		{"inspect", ExitUsage, "at least 1 arg"},
		{"inspect " + dir + "/none", ExitFailure, "no such file"},
		{"inspect " + garbage, ExitFailure, "garbage"},
		{"inspect " + dir, ExitFailure, "without checkpoints"},
		{"convert " + plain, ExitUsage, "accepts 2 arg"},
		{"convert " + plain + " " + dir + "/x.pt", ExitFailure, ".safetensors, .npz or .npy"},
		{"convert " + plain + " " + plain, ExitFailure, "--force"},
		{"convert --dtype int8 " + plain + " " + dir + "/x.npz", ExitUsage, "--dtype int8"},
		{"bench nothing", ExitUsage, "products, parameters, log, parallel, overlap"},
		{"bench 6", ExitUsage, "products"},
		{"bench --sizes 0", ExitUsage, "--sizes"},
		{"bench --sizes x", ExitUsage, "--sizes"},
		{"bench --time 0s", ExitUsage, "--time"},
		{"bench --device gpu:900", ExitUsage, "there is no gpu:900"},
		{"bench --out " + garbage + "/x", ExitFailure, "garbage"},
		{"devices --every 1ms", ExitUsage, "at least 10ms"},
		{"devices x", ExitUsage, "x"},
	} {
		r := call("80", strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.err, c.want) || !strings.HasPrefix(r.err, "locus: ") {
			t.Errorf("locus %s: code %d, want %d and %q\n%s", c.args, r.code, c.code, c.want, r.err)
		}
		if lines := strings.Count(r.err, "\n"); lines > 2 || strings.Contains(r.err, "goroutine") || strings.Contains(r.err, "panic") {
			t.Errorf("locus %s: not one clear sentence:\n%s", c.args, r.err)
		}
		if r.out != "" && !strings.HasPrefix(c.args, "train") {
			t.Errorf("locus %s printed %q", c.args, r.out)
		}
	}
}

func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if s := good(t, "completion", shell); !strings.Contains(s, "locus") || len(s) < 1000 {
			t.Errorf("%s: %d bytes", shell, len(s))
		}
	}
	for _, c := range []struct{ args, want string }{
		{"train --model", "lenet"}, {"train --data", "fashion-mnist"}, {"train --device", "cpu"}, {"bench", "parallel"}, {"convert --dtype", "bfloat16"},
	} {
		s := call("80", append(append([]string{"__complete"}, strings.Fields(c.args)...), "")...).out
		if !strings.Contains(s, c.want) {
			t.Errorf("%s: %q is not offered in %q", c.args, c.want, s)
		}
	}
	if s := call("80", "__complete", "de").out; !strings.Contains(s, "devices") {
		t.Errorf("%q", s)
	}
}

// A mistake in the program itself is said to be one, without a stack.
func TestPanic(t *testing.T) {
	var out, err bytes.Buffer
	r := &app{out: text.New(&out, os.Getenv), err: text.New(&err, os.Getenv), env: func(string) string { return "" }}
	got := r.guard(func() error { panic("out of cheese") })
	if got == nil || !strings.Contains(got.Error(), "please report it") || !strings.Contains(got.Error(), "out of cheese") {
		t.Errorf("%v", got)
	}
	got = r.guard(func() error { locus.Ones(2).Add(locus.Ones(3)); return nil })
	if got == nil || strings.Contains(got.Error(), "please report it") {
		t.Errorf("an error of a tensor expression: %v", got)
	}
}
