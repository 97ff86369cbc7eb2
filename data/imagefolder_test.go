package data

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func writeImage(t *testing.T, path string, w, h int, c color.Color) {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.Set(i%w, i/w, c)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	encode := func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, &jpeg.Options{Quality: 100}) }
	if strings.EqualFold(filepath.Ext(path), ".png") {
		encode = png.Encode
	}
	if err := encode(file, img); err != nil {
		t.Fatal(err)
	}
}

func TestImageFolder(t *testing.T) {
	dir := t.TempDir()
	writeImage(t, filepath.Join(dir, "dog", "b.PNG"), 7, 5, color.RGBA{255, 0, 0, 255})
	writeImage(t, filepath.Join(dir, "dog", "a.jpg"), 4, 3, color.RGBA{0, 0, 255, 255})
	writeImage(t, filepath.Join(dir, "cat", "c.jpeg"), 30, 40, color.RGBA{0, 255, 0, 255})
	writeImage(t, filepath.Join(dir, ".hidden", "c.png"), 1, 1, color.White)
	writeAll(t, filepath.Join(dir, "cat"), map[string][]byte{"notes.txt": nil, ".x.png": nil})
	writeAll(t, dir, map[string][]byte{"top.png": nil})

	d, err := ImageFolder(dir, ImageOptions{Height: 3, Width: 4})
	if err != nil {
		t.Fatal(err)
	}
	if d.Len() != 3 || !slices.Equal(d.Classes, []string{"cat", "dog"}) {
		t.Errorf("%d images, %v", d.Len(), d.Classes)
	}
	b := batchOf(t, d, 0, 1, 2)
	if fmt.Sprint(b[0].Shape(), locus.ToSlice[int64](b[1])) != "[3 3 3 4] [0 1 1]" {
		t.Errorf("%v %v", b[0].Shape(), b[1])
	}
	mean := locus.ToSlice[float32](b[0].Mean(2, 3))
	for i, want := range []float32{0, 1, 0, 0, 0, 1, 1, 0, 0} { // a green, a blue and a red one
		if math.Abs(float64(mean[i]-want)) > 0.02 {
			t.Errorf("means %v", mean)
			break
		}
	}
	for _, opt := range []ImageOptions{{Height: 2, Width: 2, Gray: true}, {Height: 2, Width: 2, Grey: true}} {
		gray, err := ImageFolder(dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		g := batchOf(t, gray, 2)
		if fmt.Sprint(g[0].Shape()) != "[1 1 2 2]" || math.Abs(g[0].Mean().Item()-0.299) > 0.01 {
			t.Errorf("%v", g[0])
		}
	}

	// Files that cannot be read are named when their batch is asked for.
	writeAll(t, filepath.Join(dir, "cat"), map[string][]byte{"d.png": []byte("no image")})
	bad, err := ImageFolder(dir, ImageOptions{Height: 3, Width: 4})
	if err != nil {
		t.Fatal(err)
	}
	l := mustLoad(t, bad, Options{BatchSize: 4, Workers: 2})
	for _, err := range l.Epoch(0) {
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "d.png") {
			t.Error(err)
		}
	}
	small, err := ImageFolder(dir, ImageOptions{Height: 3, Width: 4, MaxPixels: 100})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Batch([]int{0}, locus.Key{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "30×40") {
		t.Error(err)
	}
	for path, opt := range map[string]ImageOptions{dir: {}, filepath.Join(dir, "none"): {Height: 1, Width: 1}, filepath.Join(dir, "dog"): {Height: 1, Width: 1}} {
		if _, err := ImageFolder(path, opt); err == nil {
			t.Errorf("%s %v: no error", path, opt)
		}
	}
}

// What is transparent shows black, not garbage.
func TestTransparentImage(t *testing.T) {
	dir := t.TempDir()
	writeImage(t, filepath.Join(dir, "a", "b.png"), 2, 2, color.NRGBA{255, 255, 255, 0})
	for _, size := range []int{2, 5} {
		d, err := ImageFolder(dir, ImageOptions{Height: size, Width: size})
		if err != nil {
			t.Fatal(err)
		}
		if x := batchOf(t, d, 0)[0]; x.Max().Item() != 0 {
			t.Errorf("%v", x)
		}
	}
}
