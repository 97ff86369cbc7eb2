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
	Title  string
	Text   []string // paragraphs
	Notes  []string // what to be careful about
	Figure template.HTML
	Tables []Table
	Code   string
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

// Figure draws a board as a figure for a page.
func Figure(b *board.Board) (template.HTML, error) {
	var svg bytes.Buffer
	if err := b.WriteSVG(&svg); err != nil {
		return "", err
	}
	return template.HTML(svg.String()), nil // board escapes names and labels
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
