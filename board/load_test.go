package board

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// drawn lists the curves of a board with their points.
func drawn(b *Board) (all []string) {
	for _, p := range b.figure().panels {
		for _, c := range p.curves {
			all = append(all, fmt.Sprint(p.name, "|", c.label, "|", c.points))
		}
	}
	return all
}

// What a board logs can be loaded, under the names it had or those of a run.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	var b Board
	if err := b.LogCSV(filepath.Join(dir, "run.csv")); err != nil {
		t.Fatal(err)
	}
	if err := b.LogJSON(filepath.Join(dir, "run.json")); err != nil {
		t.Fatal(err)
	}
	for i, y := range []float64{2, math.NaN(), math.Inf(1), math.Inf(-1), 1e-300} {
		b.Draw("loss/train", float64(i), y, 1)
		b.Draw(`odd "name", with commas`, float64(i)/3, y, 1)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	want := drawn(&b)
	for _, name := range []string{"run.csv", "run.json"} {
		var same, two Board
		if err := same.Load(filepath.Join(dir, name), ""); err != nil {
			t.Fatal(err)
		}
		if got := drawn(&same); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		for _, run := range []string{"a", "b/c"} {
			if err := two.Load(filepath.Join(dir, name), run); err != nil {
				t.Fatal(err)
			}
		}
		var labels []string
		for _, l := range drawn(&two) {
			labels = append(labels, l[:strings.LastIndexByte(l, '|')])
		}
		if fmt.Sprintf("%q", labels) != `["loss|a train" "loss|b c train" "odd \"name\", with commas|a" "odd \"name\", with commas|b c"]` {
			t.Errorf("%s: %q", name, labels)
		}
	}
}

func TestLoadWhatIsNoLog(t *testing.T) {
	dir := t.TempDir()
	const csvPoint, jsonPoint = "t,loss,1,2\n", `{"time":"t","series":"loss","x":1,"y":2}` + "\n"
	for name, c := range map[string]struct {
		text, problem string
		points        int
	}{
		"empty":             {"", "", 0},
		"without points":    {csvHeader, "", 0},
		"unfinished":        {csvHeader + csvPoint + "t,loss,2,", "", 1},
		"unfinished JSON":   {jsonPoint + `{"time":"t","ser`, "", 1},
		"another CSV":       {"a,b\n1,2\n", "not a log of a board", 0},
		"a picture":         {"\x89PNG\r\n\x1a\n0123456789012345", "not a log of a board", 0},
		"no number":         {csvHeader + csvPoint + "t,loss,x,2\n", "point 2", 1},
		"too few values":    {csvHeader + "t,loss,1\n", "point 1", 0},
		"no JSON":           {jsonPoint + "nonsense\n", "point 2", 1},
		"JSON without x":    {`{"time":"t","series":"loss","y":2}` + "\n", "point 1", 0},
		"a line of 2 MB":    {csvHeader + strings.Repeat("x", 2<<20) + "\n", "too long", 0},
		"a quote in a name": {csvHeader + "t,\"lo\"ss,1,2\n", "point 1", 0},
	} {
		path := filepath.Join(dir, "log")
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		var b Board
		err := b.Load(path, "")
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v", name, err)
		}
		n := 0
		for _, p := range b.figure().panels {
			for _, curve := range p.curves {
				n += len(curve.points)
			}
		}
		if n != c.points {
			t.Errorf("%s: %d points, want %d", name, n, c.points)
		}
	}
	var b Board
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if b.Load(path, "") == nil {
			t.Errorf("%s was loaded", path)
		}
	}
}

// The main panel's title stands above the others if it has no points; one panel can be had alone.
func TestTitleAndSinglePanels(t *testing.T) {
	var b Board
	if err := b.SetAxes("", Axes{Title: "Digits", XLabel: "epoch"}); err != nil {
		t.Fatal(err)
	}
	if f := b.figure(); f.title != "" || f.panels[0].axes.Title != "Digits" || len(b.Panels()) != 0 {
		t.Errorf("before the first point: %q, %q, %q", f.title, f.panels[0].axes.Title, b.Panels())
	}
	b.Draw("loss/train", 1, 2, 1)
	b.Draw("accuracy/train", 1, 0.5, 1)
	if got := fmt.Sprintf("%q %q", b.figure().title, b.Panels()); got != `"Digits" ["loss" "accuracy"]` {
		t.Error(got)
	}
	if text := string((&stream{board: &b}).next()); !strings.Contains(text, "event: title\ndata: \"Digits\"\n") {
		t.Errorf("the page gets %s", text)
	}
	var whole, one strings.Builder
	if err := b.WriteSVG(&whole); err != nil {
		t.Fatal(err)
	}
	if err := b.WritePanelSVG(&one, "accuracy"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(whole.String(), ">Digits<") || strings.Contains(one.String(), "Digits") || strings.Contains(one.String(), "loss") || !strings.Contains(one.String(), ">accuracy<") {
		t.Errorf("the panel alone:\n%s", one.String())
	}
	if err := b.WritePanelSVG(&one, "f1"); err == nil || !strings.Contains(err.Error(), `"loss" "accuracy"`) {
		t.Error(err)
	}
	b.Draw("own", 1, 1, 1)
	if f := b.figure(); f.title != "" || f.panels[0].axes.Title != "Digits" {
		t.Errorf("with points of its own: %q, %q", f.title, f.panels[0].axes.Title)
	}
	if err := b.SetAxes("loss", Axes{YFromZero: true}); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.figure().panels {
		if _, y := p.fit(); (y.lo == 0) != (p.name == "loss") {
			t.Errorf("%s begins at %v", p.name, y.lo)
		}
	}
	if a := b.Axes(""); a.Title != "Digits" || b.Axes("none") != (Axes{}) {
		t.Error(a)
	}
}
