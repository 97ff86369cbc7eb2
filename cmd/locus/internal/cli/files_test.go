package cli

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/inspect"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/export"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
	"github.com/locusml/locus/weights/checkpoint"
)

// evil clears a screen, sets a title, turns the direction of writing and begins a
// line of its own: all that a text from a file must not do.
const evil = "\x1b[2J\x1b]0;title\a\u202e\u009b31m\x7f\nlocus: forged\r"

// requireTame makes sure that nothing of it came through.
func requireTame(t *testing.T, what string, r result) {
	t.Helper()
	for _, c := range "\x1b\a\u202e\u009b\x7f\r" {
		if strings.ContainsRune(r.out+r.err, c) {
			t.Errorf("%s lets %q through: %q", what, c, r.out+r.err)
		}
	}
	if strings.Contains(r.out+r.err, "\nlocus: forged") {
		t.Errorf("%s lets a line through: %q", what, r.out+r.err)
	}
}

func TestTextsOfFilesAreTame(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.safetensors")
	card, err := json.Marshal(model.Card{Model: evil, Data: evil, Input: []int{1, 8, 8}, Classes: []string{evil}, Made: evil,
		Hyper: map[string]any{evil: evil}, Result: map[string]any{evil: evil}})
	if err != nil {
		t.Fatal(err)
	}
	tensors := map[string]*locus.Tensor{"w" + evil: locus.CPU().Ones(2)}
	if err := weights.Save(file, tensors, map[string]string{"k" + evil: evil, "locus": string(card)}); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain.safetensors")
	if err := weights.Save(plain, tensors, map[string]string{"k" + evil: evil}); err != nil {
		t.Fatal(err)
	}
	// A checkpoint whose state and a broken one whose text are hostile.
	folder := filepath.Join(dir, "checkpoints")
	d, err := checkpoint.Open(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e, err := d.Save(tensors, map[string]string{evil: evil})
		if err != nil {
			t.Fatal(err)
		}
		if e.Number == 2 {
			if err := os.WriteFile(filepath.Join(e.Path, "manifest.json"), []byte(`{"version": 1, "number": "`+evil+`"}`), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	digits := filepath.Join(dir, "digits.safetensors")
	net, err := model.Build("softmax", []int{1, 8, 8}, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	classes := make([]string, 10)
	for i := range classes {
		classes[i] = fmt.Sprint(i, evil)
	}
	if err := model.Save(digits, net, model.Card{Model: "softmax", Data: "digits", Input: []int{1, 8, 8}, Classes: classes}); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(dir, "p.png")
	writePicture(t, picture)
	npz := filepath.Join(dir, "a.npz")
	for i, args := range [][]string{
		{"inspect", file}, {"inspect", "--stats", file}, {"inspect", "--json", file}, {"inspect", plain}, {"inspect", folder}, {"inspect", "--json", folder},
		{"inspect", filepath.Join(folder, "checkpoint-00000002")}, {"inspect", filepath.Join(dir, "none"+evil)},
		{"convert", file, npz}, {"convert", "--json", file, npz, "--force"}, {"convert", file, npz + evil},
		{"predict", file}, {"predict", plain}, {"predict", "--model", "mlp", "--data", "digits", plain}, {"predict", folder},
		{"predict", digits, picture}, {"predict", digits, "--json", picture}, {"predict", digits, "none" + evil},
	} {
		r := call("80", args...)
		requireTame(t, fmt.Sprintf("%d: locus %q", i, args), r)
		if r.out+r.err == "" {
			t.Errorf("locus %q says nothing", args)
		}
	}
	if r := call("80", "inspect", plain); r.code != 0 || !strings.Contains(r.out, `\x1b[2J`) {
		t.Errorf("%+v", r)
	}
	// What JSON has escaped is read back as it was.
	var files []struct{ Metadata map[string]string }
	if err := json.Unmarshal([]byte(good(t, "inspect", "--json", plain)), &files); err != nil || files[0].Metadata["k"+evil] != evil {
		t.Errorf("%v %q", err, files)
	}
}

func writePicture(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
}

// A compressed file that unpacks to more than is allowed is refused with the name
// of the flag that allows it.
func TestMaxUnpacked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zeros.npz")
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "a.npy", Method: zip.Deflate})
	if err != nil {
		t.Fatal(err)
	}
	if err := weights.WriteNPY(w, locus.CPU().Zeros(1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"inspect", path}, {"convert", path, path + ".safetensors", "--force"}} {
		if r := call("80", append(args, "--max-unpacked", "1MiB")...); r.code != ExitFailure || !strings.Contains(r.err, "--max-unpacked") {
			t.Errorf("%+v", r)
		}
		if r := call("80", append(args, "--max-unpacked", "x")...); r.code != ExitUsage {
			t.Errorf("%+v", r)
		}
		good(t, append(args, "--max-unpacked", "8MiB")...)
		good(t, args...)
	}
}

// Cards of files that claim huge networks are refused, not built.
func TestHugeCards(t *testing.T) {
	for _, input := range [][]int{{1, 1 << 40, 1 << 40}, {1, 1 << 20, 1 << 20}, {1 << 62, 1 << 62, 1 << 62}, {1, 1}, {}, {-1, 8, 8}} {
		path := filepath.Join(t.TempDir(), "a.safetensors")
		card, err := json.Marshal(model.Card{Model: "mlp", Data: "digits", Input: input, Classes: []string{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := weights.Save(path, map[string]*locus.Tensor{"w": locus.CPU().Ones(1)}, map[string]string{"locus": string(card)}); err != nil {
			t.Fatal(err)
		}
		if r := call("80", "predict", path); r.code != ExitFailure || strings.Contains(r.err, "mistake in locus") {
			t.Errorf("%v: %+v", input, r)
		}
	}
}

// Equal runs write equal files of weights.
func TestEqualRunsEqualFiles(t *testing.T) {
	var first []byte
	for range 2 {
		out := filepath.Join(t.TempDir(), "run")
		good(t, "train", "--model", "softmax", "--epochs", "2", "--limit", "200", "--device", "cpu", "--out", out)
		b, err := os.ReadFile(filepath.Join(out, "weights.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(first, b) {
			t.Error("two equal runs wrote different weights")
		}
	}
}

// A program in a file is shown by its signature, not by its text.
func TestInspectProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.locus")
	if err := export.SaveNet(path, nn.Linear(3, 2), locus.Ones(4, 3)); err != nil {
		t.Fatal(err)
	}
	if s := good(t, "inspect", path); !strings.Contains(s, "program          (float32 (4, 3)) → (float32 (4, 2))") || strings.Contains(s, "version") {
		t.Error(s)
	}
	var files []inspect.File
	parse(t, good(t, "inspect", "--json", path), &files)
	if len(files) != 1 || files[0].Program != "(float32 (4, 3)) → (float32 (4, 2))" {
		t.Errorf("%+v", files)
	}
}
