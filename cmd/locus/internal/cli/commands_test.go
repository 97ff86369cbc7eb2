package cli

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/bench"
	"github.com/locusml/locus/cmd/locus/internal/card"
	"github.com/locusml/locus/cmd/locus/internal/inspect"
	"github.com/locusml/locus/cmd/locus/internal/predict"
	"github.com/locusml/locus/cmd/locus/internal/tour"
	"github.com/locusml/locus/weights"
)

func parse(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(into); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	if d.More() {
		t.Errorf("more than one value:\n%s", text)
	}
}

func TestDevices(t *testing.T) {
	for _, width := range []string{"80", "160"} {
		r := call(width, "devices", "--virtual-gpus", "1:64MiB")
		if r.code != 0 || !strings.Contains(r.out, "cpu") || !strings.Contains(r.out, "virtual GPU") || !strings.Contains(r.out, "of 64 MiB") {
			t.Errorf("%+v", r)
		}
		fits(t, r.out, map[string]int{"80": 80, "160": 160}[width])
	}
	var m card.Machine
	parse(t, good(t, "devices", "--json"), &m)
	if len(m.Devices) != locus.NumGPUs()+1 || m.Devices[0].Kind != "cpu" {
		t.Errorf("%+v", m)
	}
}

func TestDoctor(t *testing.T) {
	s := good(t, "doctor")
	fits(t, s, 80)
	fits(t, call("160", "doctor", "--verbose").out, 160)
	if !strings.Contains(s, "CPU") || !strings.Contains(s, "download folder") {
		t.Errorf("%s", s)
	}
	var d struct {
		Checks []struct{ Name, Status string }
	}
	parse(t, good(t, "doctor", "--json"), &d)
	if len(d.Checks) < 4 {
		t.Errorf("%+v", d)
	}
}

func TestTour(t *testing.T) {
	for width, columns := range map[string]int{"80": 80, "160": 160} {
		r := call(width, "tour", "--wait")
		if r.code != 0 {
			t.Fatalf("%+v", r)
		}
		fits(t, r.out, columns)
		for _, want := range []string{"1/13  Devices", "13/13", "x.Add(y)", "operands are on different devices", "locus train"} {
			if !strings.Contains(r.out, want) {
				t.Errorf("at %s columns %q is missing", width, want)
			}
		}
	}
	var all struct{ Steps []tour.Step }
	parse(t, good(t, "tour", "--json"), &all)
	if len(all.Steps) != tour.Len() || all.Steps[0].Code == "" || all.Steps[0].Output == "" {
		t.Errorf("%d steps", len(all.Steps))
	}
}

// trained trains a little network once for the tests that need one.
func trained(t *testing.T, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	good(t, append([]string{"train", "--out", out}, args...)...)
	return out
}

func TestTrainPredictInspect(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	s := good(t, "train", "--model", "softmax", "--epochs", "8", "--seed", "3", "--out", out)
	fits(t, regexp.MustCompile(regexp.QuoteMeta(filepath.Dir(out))).ReplaceAllString(s, "tmp"), 100)
	if !regexp.MustCompile(`9\d\.\d % of the test set right`).MatchString(s) {
		t.Errorf("did not learn:\n%s", s)
	}
	for _, f := range []string{"weights.safetensors", "report.html", "curves.png", "curves.csv", "checkpoints/run.json"} {
		if info, err := os.Stat(filepath.Join(out, f)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !strings.Contains(string(page), "Confusion matrix") || strings.Count(string(page), "<svg ") != 5 {
		t.Errorf("the report has %d pictures: %v", strings.Count(string(page), "<svg "), err)
	}
	file := filepath.Join(out, "weights.safetensors")

	if s := good(t, "predict", file); !strings.Contains(s, "of 360 right") || !strings.Contains(s, "most frequent mistake") {
		t.Errorf("%s", s)
	}
	var p struct {
		Model string
		Test  predict.Test
	}
	parse(t, good(t, "predict", file, "--json", "--device", "cpu"), &p)
	if p.Model != "softmax" || p.Test.Accuracy < 0.9 || len(p.Test.Classes) != 10 {
		t.Errorf("%+v", p)
	}
	var c struct{ Test predict.Test }
	parse(t, good(t, "predict", filepath.Join(out, "checkpoints"), "--json"), &c)
	if c.Test.Examples != 360 || c.Test.Accuracy < 0.9 {
		t.Errorf("from a checkpoint: %+v", c)
	}

	s = good(t, "inspect", file, filepath.Join(out, "checkpoints"))
	for _, want := range []string{"1.weight", "(10, 64)", "softmax", "seed", "test_accuracy", "model.net.1.bias", "steps"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is missing in\n%s", want, s)
		}
	}
	var files []inspect.File
	parse(t, good(t, "inspect", "--json", "--stats", file), &files)
	if len(files) != 1 || files[0].Elements != 650 || files[0].Tensors[0].Stats == nil {
		t.Errorf("%+v", files)
	}
	good(t, "inspect", "--stats", file)
}

func TestTrainSameSeedSameWeights(t *testing.T) {
	read := func(seed string) []byte {
		t.Helper()
		f, err := weights.Open(filepath.Join(trained(t, "--model", "mlp", "--limit", "200", "--epochs", "2", "--seed", seed), "weights.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w, err := f.Load("1.weight", locus.CPU())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := weights.WriteNPY(&b, w); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if one := read("5"); !bytes.Equal(one, read("5")) || bytes.Equal(one, read("6")) {
		t.Error("weights do not follow from the seed")
	}
}

func TestTrainVariants(t *testing.T) {
	for _, args := range []string{
		"--model lenet --epochs 1 --limit 128",
		"--model resnet --epochs 1 --limit 64 --batch 32",
		"--optimizer sgd --epochs 1 --limit 100 --clip 1 --patience 3",
		"--precision bf16 --epochs 1 --limit 100",
		"--precision fp16 --epochs 1 --limit 100",
		"--compile=false --epochs 1 --limit 100",
		"--precision bf16 --model resnet --epochs 1 --limit 64 --batch 32",
		"--virtual-gpus 2:64MiB --gpus 2 --epochs 1 --limit 100",
		"--device cpu --epochs 1 --limit 100 --board",
	} {
		s := good(t, append([]string{"train", "--out", "none"}, strings.Fields(args)...)...)
		if !strings.Contains(s, "of the test set right") {
			t.Errorf("%s:\n%s", args, s)
		}
	}
	var r struct {
		Epochs  []struct{ Test map[string]float64 }
		Devices []string
		Weights string
	}
	parse(t, good(t, "train", "--json", "--out", "none", "--epochs", "2", "--limit", "100", "--device", "cpu"), &r)
	if len(r.Epochs) != 2 || r.Epochs[1].Test["accuracy"] == 0 || r.Devices[0] != "cpu" || r.Weights != "" {
		t.Errorf("%+v", r)
	}
}

func TestTrainResume(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--model", "softmax", "--limit", "200", "--out", out}
	whole := call("80", append(args, "--epochs", "4", "--checkpoints", "none", "--json")...)
	if whole.code != 0 {
		t.Fatal(whole.err)
	}
	if r := call("80", append(args, "--epochs", "2", "--resume")...); r.code != 0 || !strings.Contains(r.err, "no checkpoint") {
		t.Fatalf("%+v", r)
	}
	r := call("80", append(args, "--epochs", "4", "--resume", "--json")...)
	if r.code != 0 {
		t.Fatal(r.err)
	}
	type run struct {
		Epochs []struct{ Train map[string]float64 }
	}
	var a, b run
	parse(t, whole.out, &a)
	parse(t, r.out, &b)
	if len(b.Epochs) != 4 || a.Epochs[3].Train["loss"] != b.Epochs[3].Train["loss"] {
		t.Errorf("resumed: %+v, in one go: %+v", b, a)
	}
	// The curves are those of the whole run, each point once.
	log, err := os.ReadFile(filepath.Join(out, "curves.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{"loss/training", "accuracy/validation"} {
		var xs []string
		for _, m := range regexp.MustCompile(`(?m)^[^,]*,`+series+`,([^,]*),`).FindAllStringSubmatch(string(log), -1) {
			xs = append(xs, m[1])
		}
		if strings.Join(xs, " ") != "1 2 3 4" {
			t.Errorf("%s has points at %v", series, xs)
		}
	}
	if r := call("80", append(args, "--epochs", "1")...); r.code != 0 || !strings.Contains(r.err, "--resume goes on") {
		t.Errorf("%+v", r)
	}
	if r := call("80", append(args, "--epochs", "5", "--resume", "--seed", "9")...); r.code != ExitFailure || !strings.Contains(r.err, "--seed") {
		t.Errorf("%+v", r)
	}
	if r := call("80", "train", "--model", "mlp", "--limit", "200", "--out", out, "--resume", "--lr", "0.002"); r.code != ExitFailure || !strings.Contains(r.err, "another model") {
		t.Errorf("%+v", r)
	}
}

func TestTrainDiverges(t *testing.T) {
	r := call("80", "train", "--optimizer", "sgd", "--lr", "1000000", "--epochs", "50", "--limit", "200", "--out", "none")
	if r.code != ExitFailure || !strings.Contains(r.err, "smaller learning rate") {
		t.Errorf("%+v", r)
	}
}

func TestTrainOutOfMemory(t *testing.T) {
	var m card.Machine
	parse(t, good(t, "devices", "--json", "--virtual-gpus", "1:64KiB"), &m)
	last := m.Devices[len(m.Devices)-1].Device.String()
	r := call("80", "train", "--device", last, "--out", "none")
	if r.code != ExitFailure || !strings.Contains(r.err, "out of memory") || strings.Contains(r.err, "goroutine") {
		t.Errorf("%+v", r)
	}
}

func TestPredictPicture(t *testing.T) {
	file := filepath.Join(trained(t, "--model", "mlp"), "weights.safetensors")
	m := image.NewGray(image.Rect(0, 0, 64, 64)) // a one: a thick line down the middle
	for y := 4; y < 60; y++ {
		for x := 28; x < 42; x++ {
			m.SetGray(x, y, color.Gray{Y: 255})
		}
	}
	path := filepath.Join(t.TempDir(), "one.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, m); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if s := good(t, "predict", file, path, "--top", "2"); !strings.Contains(s, "one.png\n  1 ") || strings.Count(s, "%") != 2 {
		t.Errorf("a line is taken for\n%s", s)
	}
	if r := call("80", "predict", file, path, "--invert"); !strings.Contains(r.err, "--invert") {
		t.Errorf("a light ground is not noticed: %+v", r)
	}
	var p struct{ Predictions []predict.Prediction }
	parse(t, good(t, "predict", file, path, "--json"), &p)
	if p.Predictions[0].Top[0].Class != "1" {
		t.Errorf("%+v", p)
	}
	if r := call("80", "predict", file, filepath.Join(t.TempDir(), "none.png")); r.code != ExitFailure || !strings.Contains(r.err, "none.png") {
		t.Errorf("%+v", r)
	}
}

func TestInspectAndConvertGolden(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	tensors := map[string]*locus.Tensor{"layer.weight": locus.Ones(2, 3), "layer.bias": locus.As(locus.BFloat16).Zeros(2), "count": locus.From(int64(3))}
	if err := weights.Save("m.safetensors", tensors, map[string]string{"made by": "a test"}); err != nil {
		t.Fatal(err)
	}
	look := good(t, "inspect", "m.safetensors")
	stats := good(t, "inspect", "--stats", "m.safetensors")
	r := call("80", "convert", "m.safetensors", "m.npz")
	if r.code != 0 || !strings.Contains(r.err, "left out: made by") {
		t.Errorf("%+v", r)
	}
	var c inspect.Converted
	parse(t, good(t, "convert", "--json", "--dtype", "float32", "m.npz", "n.safetensors"), &c)
	if c.Tensors != 3 {
		t.Errorf("%+v", c)
	}
	back := good(t, "inspect", "n.safetensors")
	t.Chdir(here)
	golden(t, "inspect.txt", look+"\n"+stats+"\n"+r.out+"\n"+back)
}

func TestBench(t *testing.T) {
	out := filepath.Join(t.TempDir(), "bench")
	d := locus.AddVirtualGPUs(1, 512<<20)[0] // other tests leave small ones behind
	r := call("80", "bench", "--quick", "--out", out, "--device", d.String())
	if r.code != 0 {
		t.Fatal(r.err)
	}
	fits(t, strings.ReplaceAll(r.out, out, ""), 80)
	for _, want := range []string{"1. Matrix products", "2. Reading", "3. 1000 products", "4. Two GPUs", "report.html"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s", want, r.out)
		}
	}
	for _, n := range bench.Names {
		for _, ext := range []string{".png", ".svg"} {
			if info, err := os.Stat(filepath.Join(out, n+ext)); err != nil || info.Size() < 1000 {
				t.Errorf("%s%s: %v", n, ext, err)
			}
		}
	}
	saved, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var results bench.Results
	parse(t, string(saved), &results)
	parse(t, good(t, "bench", "1", "--quick", "--out", "none", "--json"), &results)
	if len(results.Products.Rows) != 3 {
		t.Errorf("%+v", results.Products)
	}
}

// Compiled steps give the same weights, to the bit.
func TestTrainCompiledOrNot(t *testing.T) {
	var files [][]byte
	for _, compile := range []string{"true", "false"} {
		out := filepath.Join(t.TempDir(), "run")
		good(t, "train", "--limit", "300", "--epochs", "2", "--out", out, "--compile="+compile)
		b, err := os.ReadFile(filepath.Join(out, "weights.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("compiled steps give other weights")
	}
}
