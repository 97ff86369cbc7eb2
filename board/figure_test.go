package board

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sampleBoard has everything that a picture can have: two panels, gaps, a lone point, limits, a log scale, dashes, and
// names that need escaping.
func sampleBoard(t *testing.T) *Board {
	t.Helper()
	b := new(Board)
	for panel, axes := range map[string]Axes{
		"":     {Title: "Softmax regression", XLabel: "epoch", YLabel: "loss", YLim: [2]float64{0, 2}},
		"rate": {Title: "Learning rate & <friends>", YScale: Log},
	} {
		if err := b.SetAxes(panel, axes); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 101 {
		x := float64(i) / 10
		b.Draw("train_loss", x, 2.5/(1+x), 1)
		if i%10 == 0 {
			b.Draw("val_loss", x, 2.5/(1+x)+0.25, 1)
		}
		if i == 40 {
			b.Draw("rate/sgd", x, math.NaN(), 1) // a gap
		} else {
			b.Draw("rate/sgd", x, 1/float64(1+i*i), 1)
		}
	}
	b.Draw(`rate/<a> & "b"`, 5, 0.01, 1) // a lone point
	for i := range 8 {                   // beyond the palette
		b.Draw("rate/s"+string(rune('0'+i)), 0, 0.1, 1)
		b.Draw("rate/s"+string(rune('0'+i)), 10, 0.1+float64(i)/10, 1)
	}
	return b
}

func TestGoldenSVG(t *testing.T) {
	var got bytes.Buffer
	if err := sampleBoard(t).WriteSVG(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "sample.svg")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the picture is not that of %s; if the new one is right, run go test -update", path)
	}
}

func checkXML(t *testing.T, document string) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(document))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, document)
		}
		if data, ok := token.(xml.CharData); ok {
			texts = append(texts, string(data))
		}
	}
}

func FuzzSVGNames(f *testing.F) {
	for _, name := range awkwardNames {
		f.Add(name)
	}
	f.Add("\ufffe\uffff")
	f.Add(strings.Repeat("long", 100))
	f.Fuzz(func(t *testing.T, name string) {
		var b Board
		if err := b.SetAxes("", Axes{Title: name, XLabel: name, YLabel: name}); err != nil {
			t.Fatal(err)
		}
		b.Draw(name, 1, 2, 1)
		b.Draw(name, 2, 3, 1)
		var out strings.Builder
		if err := b.WriteSVG(&out); err != nil {
			t.Fatal(err)
		}
		checkXML(t, out.String())
	})
}

func TestSVGWithValuesThatCannotBeDrawn(t *testing.T) {
	for _, scale := range []Scale{Linear, Log} {
		var b Board
		if err := b.SetAxes("", Axes{XScale: scale, YScale: scale}); err != nil {
			t.Fatal(err)
		}
		for _, x := range awkwardValues {
			for _, y := range awkwardValues {
				b.Draw("s", x, y, 1)
			}
		}
		var out strings.Builder
		if err := b.WriteSVG(&out); err != nil {
			t.Fatal(err)
		}
		checkXML(t, out.String())
		if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
			t.Errorf("%v: a coordinate is not a number", scale)
		}
		drawImage(b.figure())
	}
}

func TestEmptyBoard(t *testing.T) {
	var b Board
	b.Draw("s", 1, 1, 10) // a group that is not complete shows nothing
	var out strings.Builder
	if err := b.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(checkXML(t, out.String()), ""), "no points yet") {
		t.Error("an empty board does not say so")
	}
}

func TestImage(t *testing.T) {
	img := drawImage(sampleBoard(t).figure())
	if size := img.Bounds().Size(); size.X != 2160 || size.Y != 680 {
		t.Errorf("size %v", size)
	}
	count := map[color.RGBA]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			count[img.RGBAAt(x, y)]++
		}
	}
	at := func(hex string) color.RGBA { return parseColor(hex).C.(color.RGBA) }
	for _, c := range append([]string{paper, ink, grid, frame}, palette[:3]...) {
		if count[at(c)] < 50 {
			t.Errorf("color %s is on %d pixels only", c, count[at(c)])
		}
	}
}

func TestSave(t *testing.T) {
	var b Board
	b.Draw("s", 1, 2, 1)
	dir := filepath.Join(t.TempDir(), "made")
	for _, name := range []string{"a.PNG", "a.svg", "a.svg"} { // the last replaces the one before
		if err := b.Save(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "a.svg")); err != nil || !strings.HasPrefix(string(svg), "<svg ") {
		t.Errorf("SVG: %v, begins %.10q", err, svg)
	}
	data, err := os.ReadFile(filepath.Join(dir, "a.PNG"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != 1440 || size.Y != 840 {
		t.Errorf("size %v", size)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("%d files, want 2", len(files))
	}
}

func TestClip(t *testing.T) {
	area := box{0, 0, 10, 10}
	nan := math.NaN()
	tests := []struct {
		name string
		line []xy
		want [][]xy
	}{
		{"inside", []xy{{1, 1}, {2, 2}, {3, 1}}, [][]xy{{{1, 1}, {2, 2}, {3, 1}}}},
		{"through", []xy{{-5, 5}, {15, 5}}, [][]xy{{{0, 5}, {10, 5}}}},
		{"out and in again", []xy{{5, 5}, {5, 15}, {7, 15}, {7, 5}}, [][]xy{{{5, 5}, {5, 10}}, {{7, 10}, {7, 5}}}},
		{"outside", []xy{{-5, -5}, {-1, 20}}, nil},
		{"past a corner", []xy{{-4, 5}, {5, -40}}, nil},
		{"gap", []xy{{1, 1}, {2, 2}, {nan, nan}, {3, 3}, {4, 4}}, [][]xy{{{1, 1}, {2, 2}}, {{3, 3}, {4, 4}}}},
		{"one point", []xy{{1, 1}}, nil},
	}
	for _, test := range tests {
		got := clip(test.line, area)
		ok := len(got) == len(test.want)
		for i := 0; ok && i < len(got); i++ {
			ok = len(got[i]) == len(test.want[i])
			for j := 0; ok && j < len(got[i]); j++ {
				ok = got[i][j] == test.want[i][j]
			}
		}
		if !ok {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestDashed(t *testing.T) {
	runs := dashed([]xy{{0, 0}, {10, 0}, {10, 10}}, []float64{4, 2})
	on := 0.0
	for _, run := range runs {
		for i := 1; i < len(run); i++ {
			on += math.Hypot(run[i].x-run[i-1].x, run[i].y-run[i-1].y)
		}
	}
	if len(runs) != 4 || math.Abs(on-14) > 1e-9 { // of 20: 4 on, 2 off, 4, 2, 4, 2, 2 on
		t.Errorf("%d dashes of %v in all: %v", len(runs), on, runs)
	}
}

func TestShorten(t *testing.T) {
	f := font{size: tickSize}
	if got := shorten("short", 100, f); got != "short" {
		t.Errorf("got %q", got)
	}
	got := shorten(strings.Repeat("wide ", 50), 100, f)
	if !strings.HasSuffix(got, "…") || textWidth(got, f) > 100 || textWidth(got, f) < 80 {
		t.Errorf("got %q of width %v", got, textWidth(got, f))
	}
}

func BenchmarkWritePNG(b *testing.B) {
	var board Board
	for i := range 100_000 {
		for _, name := range []string{"a", "b", "c"} {
			board.Draw(name, float64(i), math.Sin(float64(i)/5000)+float64(i%97)/97+float64(len(name)), 1)
		}
	}
	for b.Loop() {
		board.WritePNG(io.Discard)
	}
}
