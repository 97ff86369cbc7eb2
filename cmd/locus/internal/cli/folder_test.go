package cli

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pictures writes n images of each of two classes, red and blue, into a folder.
func pictures(t *testing.T, folder string, n int) string {
	t.Helper()
	for class, c := range map[string]color.RGBA{"blue": {0, 0, 200, 255}, "red": {200, 0, 0, 255}} {
		if err := os.MkdirAll(filepath.Join(folder, class), 0o777); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			m := image.NewRGBA(image.Rect(0, 0, 10+i, 12))
			for y := range 12 {
				for x := range 10 + i {
					m.SetRGBA(x, y, color.RGBA{c.R, uint8(10 * (x + y + i) % 200), c.B, 255})
				}
			}
			f, err := os.Create(filepath.Join(folder, class, fmt.Sprint(i, ".png")))
			if err != nil {
				t.Fatal(err)
			}
			if err := png.Encode(f, m); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	return folder
}

// The user's own images: trained, gone on with, used on a picture, tested.
func TestTrainOnAFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	pictures(t, "colors", 25)
	s := good(t, "train", "--data", "colors", "--size", "8", "--batch", "8", "--epochs", "8")
	if !strings.Contains(s, "runs/colors-mlp/weights.safetensors") || !strings.Contains(s, "100.0 %") {
		t.Error(s)
	}
	good(t, "train", "--data", "colors", "--epochs", "9", "--resume") // with the size and the batch of before
	weights := filepath.Join("runs", "colors-mlp", "weights.safetensors")
	if s := good(t, "predict", weights, filepath.Join("colors", "red", "3.png")); !strings.Contains(s, "\n  red ") {
		t.Error(s)
	}
	if r := call("80", "predict", weights); r.code != 0 || !strings.Contains(strings.Join(strings.Fields(r.out), " "), "10 of 10 right") { // wherever lines break
		t.Errorf("%+v", r)
	}
	// With folders for the two parts.
	pictures(t, "parts/train", 20)
	pictures(t, "parts/test", 6)
	if r := call("80", "train", "--data", "parts", "--model", "lenet", "--size", "16", "--batch", "8", "--epochs", "1", "--out", "none", "--json"); r.code != 0 || !strings.Contains(r.out, `"examples": 40`) {
		t.Errorf("%+v", r)
	}
	// What cannot be.
	os.MkdirAll("empty/a", 0o777)
	os.Rename("parts/test/red", "parts/test/green")
	for args, want := range map[string]string{"--data empty": "no PNG or JPEG", "--data parts": "in test blue, green", "--data nowhere": "there is no such data", "--data colors --size 2": "--size 2", "--data colors --batch 100": "use at most 40"} {
		if r := call("80", append([]string{"train", "--out", "none"}, strings.Fields(args)...)...); r.code == 0 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
