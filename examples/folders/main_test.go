package main

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
)

func TestRun(t *testing.T) {
	folder, out := t.TempDir(), filepath.Join(t.TempDir(), "made")
	if err := drawShapes(folder, 60); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	report, err := run(&b, folder, out, 22)
	if err != nil {
		t.Fatal(err)
	}
	// 180 pictures are 12 batches, two a step.
	if report.Steps != 22*6 || !strings.Contains(b.String(), "180 pictures of 5 classes") {
		t.Errorf("%d steps\n%s", report.Steps, b.String())
	}
	if best := report.Epochs[report.BestEpoch].Validation["accuracy"]; best < 0.5 {
		t.Errorf("accuracy %.3f; a fifth is chance\n%s", best, report)
	}
	if first, second := report.Epochs[0].LR, report.Epochs[2].LR; !(first < second) {
		t.Errorf("no warm-up: rates %v and %v", first, second)
	}
	for _, name := range []string{"confusion.png", "curves.png"} {
		f, err := os.Open(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.Close()
	}

	// The model is whole: with its classes and means it recognizes what it learned.
	path := filepath.Join(out, "model.safetensors")
	texts, err := nn.Metadata(path)
	if err != nil {
		t.Fatal(err)
	}
	var classes []string
	var scaler data.Scaler
	if err := json.Unmarshal([]byte(texts["classes"]), &classes); err != nil || len(classes) != 5 {
		t.Fatal(classes, err)
	}
	if err := json.Unmarshal([]byte(texts["scaler"]), &scaler); err != nil {
		t.Fatal(err)
	}
	net := nn.Eval(newNet(len(classes)))
	if err := nn.Load(path, net); err != nil {
		t.Fatal(err)
	}
	all, err := data.ImageFolder(folder, data.ImageOptions{Height: size, Width: size})
	if err != nil {
		t.Fatal(err)
	}
	at := make([]int, all.Len())
	for i := range at {
		at[i] = i
	}
	batch, err := all.Batch(at, locus.NewKey(0))
	if err != nil {
		t.Fatal(err)
	}
	right := 0.0
	locus.NoGrad(func() {
		right = net.Forward(scaler.Scale(batch[0])).ArgMax(1).Eq(batch[1]).Cast(locus.Float32).Mean().Item()
	})
	if right < 0.5 {
		t.Errorf("the saved model is right in %.3f of the cases\n%s", right, b.String())
	}
}

func TestNoPictures(t *testing.T) {
	if _, err := run(new(strings.Builder), t.TempDir(), t.TempDir(), 1); err == nil || !strings.Contains(err.Error(), "no PNG or JPEG") {
		t.Error(err)
	}
}
