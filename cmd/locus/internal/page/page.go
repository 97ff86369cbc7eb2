// Package page writes reports as web pages that need nothing but themselves:
// styles and figures are inside, and nothing is loaded from anywhere.
package page

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"

	"github.com/locusml/locus/board"
	"github.com/locusml/locus/internal/disk"
)

// Page is a report.
type Page struct {
	Title    string
	Lead     string // what this is, in a sentence or two
	Facts    [][2]string
	Sections []Section
	Foot     string
}

// Section is a part of a page.
type Section struct {
	Title   string
	Text    []string        // paragraphs
	Notes   []string        // what to be careful about
	Figures []template.HTML // in a grid that fits the screen
	Tables  []Table
	Code    string
}

// Table is a table; columns from Numbers on are aligned to the right.
type Table struct {
	Head    []string
	Numbers int
	Rows    [][]string
}

//go:embed page.html
var source string

var tmpl = template.Must(template.New("page").Parse(source))

// Figures draws a board's panels as figures for a page.
func Figures(b *board.Board) ([]template.HTML, error) {
	var all []template.HTML
	for _, panel := range b.Panels() {
		var svg bytes.Buffer
		if err := b.WritePanelSVG(&svg, panel); err != nil {
			return nil, err
		}
		all = append(all, template.HTML(svg.String())) // board escapes names and labels
	}
	return all, nil
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error { return tmpl.Execute(w, p) }

// Save writes the page to a file, whole or not at all.
func (p *Page) Save(path string) error {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return err
	}
	return SaveFile(path, b.Bytes())
}

// SaveFile writes a file, whole or not at all.
func SaveFile(path string, content []byte) error {
	return disk.WriteFile(disk.OS, path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}
