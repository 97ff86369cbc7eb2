package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus/board"
)

func TestPageEscapes(t *testing.T) {
	const evil = `<script>alert("x")</script>`
	var b board.Board
	b.Draw("loss/"+evil, 1, 2, 1)
	b.Draw("loss/"+evil, 2, 1, 1)
	figures, err := Figures(&b)
	if err != nil {
		t.Fatal(err)
	}
	p := Page{Title: evil, Lead: evil, Facts: [][2]string{{evil, evil}}, Foot: evil, Sections: []Section{{Title: evil, Text: []string{evil}, Notes: []string{evil}, Code: evil, Figures: figures,
		Tables: []Table{{Head: []string{evil, "n"}, Numbers: 1, Rows: [][]string{{evil, "1"}}}}}}}
	var out strings.Builder
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "<script") || !strings.Contains(out.String(), `class="n"`) || !strings.Contains(out.String(), "prefers-color-scheme: dark") {
		t.Errorf("%s", out.String())
	}
}

func TestSaveWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.html")
	p := Page{Title: "one"}
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(filepath.Join(dir, "none", "p.html")); err == nil {
		t.Error("saving to a folder that is not there is no error")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(filepath.Join(dir, "folder")); err == nil {
		t.Error("saving over a folder is no error")
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}
