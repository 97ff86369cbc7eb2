package board

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// manyBoard has so many panels of one curve of so many points.
func manyBoard(panels, points int) *Board {
	b := new(Board)
	for i := range panels {
		name := fmt.Sprintf("panel %d/loss", i)
		for j := range points {
			b.Draw(name, float64(j), math.Sin(float64(j*(i+1))/100), 1)
		}
	}
	return b
}

// An image takes bounded memory however many panels there are, and no time that
// one would notice. The times are the processor's and leave room for a slow machine: before
// there was a limit it was twenty seconds for 400 panels.
func TestManyPanels(t *testing.T) {
	for _, c := range []struct{ panels, points int }{{400, 50}, {400, 3000}, {3000, 2}} {
		b := manyBoard(c.panels, c.points)
		var out bytes.Buffer
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime()
		if err := b.WritePNG(&out); err != nil {
			t.Fatal(err)
		}
		took := cpuTime() - start
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 256 || took > slowdown*6*time.Second {
			t.Errorf("%d panels of %d points take %d MB and %v", c.panels, c.points, n, took)
		}
		config, err := png.DecodeConfig(&out)
		if err != nil || config.Width*config.Height > maxPixels || config.Width < 500 {
			t.Errorf("%d panels are %d×%d pixels: %v", c.panels, config.Width, config.Height, err)
		}
		t.Logf("%d panels of %d points: %v, %d×%d pixels", c.panels, c.points, took, config.Width, config.Height)

		start = cpuTime()
		var svg strings.Builder
		if err := b.WriteSVG(&svg); err != nil {
			t.Fatal(err)
		}
		if texts := checkXML(t, svg.String()); !slices.Contains(texts, fmt.Sprintf("panel %d", c.panels-1)) {
			t.Error("the document does not have them all")
		}
		if len((&stream{board: b}).next()) == 0 || cpuTime()-start > slowdown*6*time.Second {
			t.Errorf("%d panels take a document and a page %v", c.panels, cpuTime()-start)
		}
	}
}

// Panels are where the picture has room for them, and do not overlap.
func TestPlaces(t *testing.T) {
	for n := 1; n < 40; n++ {
		f := figure{panels: make([]panel, n)}
		if n%2 == 0 {
			f.title = "a title"
		}
		l := f.layout()
		w, h := l.size()
		var taken []box
		for i := range n {
			p := l.place(i)
			if p.x0 < 0 || p.y0 < l.top || p.x1 > w || p.y1 > h {
				t.Errorf("panel %d of %d is at %v, outside %v×%v", i, n, p, w, h)
			}
			for _, q := range taken {
				if p.x0 < q.x1 && q.x0 < p.x1 && p.y0 < q.y1 && q.y0 < p.y1 {
					t.Errorf("panel %d of %d lies on another", i, n)
				}
			}
			taken = append(taken, p)
		}
	}
}

// A panel of many curves has room for them: the legend ends somewhere.
func TestManyCurves(t *testing.T) {
	for _, panels := range []int{1, 10} {
		b := manyBoard(panels, 2)
		for i := range 1000 {
			b.Draw(fmt.Sprintf("panel 0/curve %d", i), 0, 1, 1)
			b.Draw(fmt.Sprintf("panel 0/curve %d", i), 1, 2, 1)
		}
		var svg strings.Builder
		if err := b.WriteSVG(&svg); err != nil {
			t.Fatal(err)
		}
		texts := strings.Join(checkXML(t, svg.String()), "\n")
		if !strings.Contains(texts, "\nand ") || !strings.Contains(texts, " more\n") || strings.Contains(texts, "\ncurve 999\n") {
			t.Errorf("%d panels: the legend has no end", panels)
		}
	}
}

// Thinning keeps what a curve covers: in each column its ends and extremes.
func TestThin(t *testing.T) {
	var points []xy
	for i := range 10_000 {
		points = append(points, xy{float64(i) / 100, math.Sin(float64(i*i) / 1000)})
	}
	points[5000].y = 50 // a peak
	points[7000].y = math.NaN()
	thinned := thin(points, 1)
	if len(thinned) > 4*103 {
		t.Errorf("%d points are left", len(thinned))
	}
	if !slices.Contains(thinned, points[5000]) || !thinned[0].same(points[0]) || !thinned[len(thinned)-1].same(points[len(points)-1]) {
		t.Error("a peak or an end is gone")
	}
	if !slices.ContainsFunc(thinned, func(p xy) bool { return math.IsNaN(p.y) }) {
		t.Error("a gap is gone")
	}
	few := points[:3]
	if got := thin(few, 0.001); !slices.Equal(got, few) {
		t.Errorf("%v became %v", few, got)
	}
	if got := thin(nil, 1); len(got) != 0 {
		t.Error(got)
	}
}

// A name as long as a book is cut in no time.
func TestShortenLongNames(t *testing.T) {
	f := font{size: tickSize}
	for _, s := range []string{"", "short", strings.Repeat("long ", 20), strings.Repeat("W", 100_000)} {
		got := shorten(s, 100, f)
		if textWidth(got, f) > 100 || textWidth(s, f) <= 100 && got != s || textWidth(s, f) > 100 && !strings.HasSuffix(got, "…") {
			t.Errorf("%.20q becomes %q", s, got)
		}
	}
	if got := shorten("word", 1, f); got != "…" {
		t.Errorf("%q", got)
	}
}

// A picture that is saved again keeps the file's mode and the link to it.
func TestSaveKeepsModeAndLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows has no such permissions")
	}
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a.svg"), filepath.Join(dir, "b.svg")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.svg", link); err != nil {
		t.Fatal(err)
	}
	if err := manyBoard(1, 2).Save(link); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 || info.Size() == 0 {
		t.Errorf("%v %v", info, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "a.svg" {
		t.Errorf("the link was replaced: %v", err)
	}
}
