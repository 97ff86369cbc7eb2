package board

import (
	"bytes"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMatrix(t *testing.T) {
	dir := t.TempDir()
	m := Matrix{Title: "Confusion <matrix>", Values: [][]float64{{90, 10, 0}, {5, 3, 2}, {0, 0, 0.125}}, Rows: []string{"cat", "dog & wolf", "bird"},
		Columns: []string{"cat", "dog & wolf", "bird"}, XLabel: "predicted", YLabel: "true", ByRow: true, HideZeros: true}
	var svg bytes.Buffer
	if err := m.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	text := svg.String()
	for _, want := range []string{"Confusion &lt;matrix&gt;", ">dog &amp; wolf<", ">predicted<", ">true<", ">90<", ">0.125<", `fill="#2468d8"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, ">0<") {
		t.Error("a zero is written")
	}
	checkXML(t, text)
	for _, name := range []string{"m.png", "m.svg"} {
		if err := m.Save(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(filepath.Join(dir, "m.png"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("BOARD_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "matrix.png"), file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// The square of 90 is darker than that of 10, of another row's 5 of 10 than of its 2.
	l := m.layout()
	light := func(i, k int) uint32 {
		x, y := l.left+(float64(k)+0.15)*l.cell, l.top+(float64(i)+0.15)*l.cell
		r, g, b, _ := img.At(int(x*pngScale), int(y*pngScale)).RGBA()
		return r + g + b
	}
	if !(light(0, 0) < light(0, 1) && light(0, 1) < light(0, 2) && light(1, 0) < light(1, 2) && light(1, 0) < light(0, 1)) {
		t.Error(light(0, 0), light(0, 1), light(0, 2), light(1, 0), light(1, 2))
	}
}

func TestMatricesOfAllSizes(t *testing.T) {
	for _, n := range []int{1, 2, 10, 64, 65, 256} {
		m := Matrix{Values: make([][]float64, n)}
		for i := range m.Values {
			m.Values[i] = make([]float64, n+n%2)
			m.Values[i][0] = 1234
		}
		m.Values[0][0] = math.NaN()
		var b bytes.Buffer
		if err := m.WritePNG(&b); err != nil {
			t.Fatal(n, err)
		}
		if l := m.layout(); l.width > 5000 || l.height > 5000 || l.cell < 5 || l.named != (n <= 64) {
			t.Errorf("%d: %+v", n, l)
		}
	}
	for name, m := range map[string]Matrix{"empty": {}, "no columns": {Values: [][]float64{{}}}, "ragged": {Values: [][]float64{{1}, {1, 2}}}, "names": {Values: [][]float64{{1}}, Rows: []string{"a", "b"}},
		"huge": {Values: make([][]float64, 300)}} {
		if m.WriteSVG(new(bytes.Buffer)) == nil || m.WritePNG(new(bytes.Buffer)) == nil || m.Save(filepath.Join(t.TempDir(), "x.png")) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := (Matrix{Values: [][]float64{{1}}}).Save("x.txt"); err == nil {
		t.Error("a text file")
	}
}

// Infinite numbers have the darkest shade, and change no other square's; NaN has none.
func TestMatrixOfInfinities(t *testing.T) {
	inf := math.Inf(1)
	for _, byRow := range []bool{false, true} {
		m := Matrix{Values: [][]float64{{0.5, -inf, math.NaN()}, {inf, -inf, inf}, {math.MaxFloat64, math.MaxFloat64, 1}}, ByRow: byRow}
		var svg, img bytes.Buffer
		if err := m.WriteSVG(&svg); err != nil {
			t.Fatal(err)
		}
		checkXML(t, svg.String())
		if n := strings.Count(svg.String(), `fill="`+shade(1)+`"`); n < 4 {
			t.Errorf("%d squares of the darkest shade, want 4 and more", n)
		}
		if err := m.WritePNG(&img); err != nil {
			t.Fatal(err)
		}
	}
}
