package board

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"strconv"

	"github.com/locusml/locus/internal/gate"
)

// A Matrix is a table of numbers to be looked at, such as a confusion matrix: a square per
// number, the darker the larger it is.
type Matrix struct {
	Title          string
	Values         [][]float64
	Rows, Columns  []string // names; nil for numbers from 0
	YLabel, XLabel string   // what rows and columns are
	ByRow          bool     // a square's shade is its fraction of the row's sum, not of the largest number
	HideZeros      bool     // no number in squares of 0
}

// Limits of a matrix that can be drawn.
const (
	maxMatrix   = 256  // rows, and columns
	matrixNames = 64   // with more of them there are no names and numbers
	nameRoom    = 160. // the most that names of rows and columns take
)

func (m Matrix) check() error {
	if len(m.Values) == 0 || len(m.Values[0]) == 0 {
		return errors.New("the matrix has no numbers")
	}
	if len(m.Values) > maxMatrix || len(m.Values[0]) > maxMatrix {
		return fmt.Errorf("the matrix has %d rows and %d columns; up to %d can be drawn", len(m.Values), len(m.Values[0]), maxMatrix)
	}
	for i, row := range m.Values {
		if len(row) != len(m.Values[0]) {
			return fmt.Errorf("row %d has %d numbers, row 0 has %d", i, len(row), len(m.Values[0]))
		}
	}
	if m.Rows != nil && len(m.Rows) != len(m.Values) || m.Columns != nil && len(m.Columns) != len(m.Values[0]) {
		return fmt.Errorf("%d and %d names for %d rows and %d columns", len(m.Rows), len(m.Columns), len(m.Values), len(m.Values[0]))
	}
	return nil
}

// Save writes the matrix to a picture file as [Board.Save] does; its name ends in .svg or .png.
func (m Matrix) Save(path string) error { return save(path, m.WriteSVG, m.WritePNG) }

// WriteSVG writes the matrix as an SVG document.
func (m Matrix) WriteSVG(w io.Writer) error {
	if err := errors.Join(gate.Given("the writer", w), m.check()); err != nil {
		return fmt.Errorf("board: %w", err)
	}
	l := m.layout()
	c := svgCanvas{buf: bufio.NewWriter(w)}
	c.begin(l.width, l.height, m.Title)
	m.draw(&c, l)
	c.printf("</svg>\n")
	return c.buf.Flush()
}

// WritePNG writes the matrix as a PNG image.
func (m Matrix) WritePNG(w io.Writer) error {
	if err := errors.Join(gate.Given("the writer", w), m.check()); err != nil {
		return fmt.Errorf("board: %w", err)
	}
	l := m.layout()
	c := &pngCanvas{scale: pngScale, img: image.NewRGBA(image.Rect(0, 0, int(l.width*pngScale), int(l.height*pngScale)))}
	m.draw(c, l)
	return png.Encode(w, c.img)
}

// matrixLayout is where the parts of a matrix lie.
type matrixLayout struct {
	width, height float64
	left, top     float64 // of the squares
	cell          float64
	named         bool // names and numbers can be read
	turned        bool // names of columns read upwards
}

func (m Matrix) layout() matrixLayout {
	rows, columns := len(m.Values), len(m.Values[0])
	l := matrixLayout{named: max(rows, columns) <= matrixNames}
	names := font{size: tickSize}
	rowRoom, columnRoom, widest := 0.0, 0.0, 0.0
	if l.named {
		for i := range rows {
			rowRoom = max(rowRoom, min(nameRoom, textWidth(name(m.Rows, i), names)))
		}
		for k := range columns {
			columnRoom = max(columnRoom, min(nameRoom, textWidth(name(m.Columns, k), names)))
		}
		for _, row := range m.Values {
			for _, v := range row {
				widest = max(widest, textWidth(cellText(v), names))
			}
		}
	}
	l.cell = min(64, max(5, 480/float64(max(rows, columns))))
	if l.named {
		l.cell = max(l.cell, widest+10, 22)
	}
	l.turned = columnRoom > l.cell-6
	l.left, l.top = 24+rowRoom+8, 24
	if m.YLabel != "" {
		l.left += labelSize + 10
	}
	if m.Title != "" {
		l.top += titleSize + 10
	}
	if m.XLabel != "" {
		l.top += labelSize + 10
	}
	if l.named {
		if l.turned {
			l.top += columnRoom + 6
		} else {
			l.top += tickSize + 6
		}
	}
	l.width, l.height = l.left+l.cell*float64(columns)+24, l.top+l.cell*float64(rows)+24
	if w := textWidth(m.Title, font{size: titleSize, bold: true}) + 48; w > l.width {
		l.width = min(w, 960)
	}
	return l
}

// name is that of a row or column.
func name(names []string, i int) string {
	if names == nil {
		return strconv.Itoa(i)
	}
	return cleanName(names[i])
}

func cellText(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e6 {
		return strconv.Itoa(int(v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func (m Matrix) draw(c canvas, l matrixLayout) {
	c.rect(0, 0, l.width, l.height, paper)
	rows, columns := len(m.Values), len(m.Values[0])
	right, bottom := l.left+l.cell*float64(columns), l.top+l.cell*float64(rows)
	y := 16.0
	if m.Title != "" {
		f := font{size: titleSize, bold: true}
		y += titleSize
		c.text(xy{24, y}, shorten(cleanName(m.Title), l.width-48, f), f, start, ink)
		y += 10
	}
	if m.XLabel != "" {
		f := font{size: labelSize}
		y += labelSize
		c.text(xy{(l.left + right) / 2, y}, cleanName(m.XLabel), f, middle, muted)
	}
	if m.YLabel != "" {
		c.text(xy{16 + labelSize*0.8, (l.top + bottom) / 2}, cleanName(m.YLabel), font{size: labelSize, upright: true}, middle, muted)
	}
	if l.named {
		f := font{size: tickSize}
		for i := range rows {
			c.text(xy{l.left - 8, l.top + (float64(i)+0.5)*l.cell + tickSize*0.35}, shorten(name(m.Rows, i), nameRoom, f), f, end, ink)
		}
		for k := range columns {
			x := l.left + (float64(k)+0.5)*l.cell
			if l.turned {
				c.text(xy{x + tickSize*0.35, l.top - 6}, shorten(name(m.Columns, k), nameRoom, f), font{size: tickSize, upright: true}, start, ink)
			} else {
				c.text(xy{x, l.top - 6}, name(m.Columns, k), f, middle, ink)
			}
		}
	}
	largest := 0.0
	for _, row := range m.Values {
		for _, v := range row {
			if finite := !math.IsNaN(v) && !math.IsInf(v, 0); finite {
				largest = max(largest, math.Abs(v))
			}
		}
	}
	for i, row := range m.Values {
		whole := largest
		if m.ByRow {
			whole = 0
			for _, v := range row {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					whole += math.Abs(v)
				}
			}
		}
		for k, v := range row {
			share := 0.0
			switch {
			case math.IsInf(v, 0):
				share = 1
			case whole > 0 && !math.IsNaN(v):
				share = min(1, math.Abs(v)/whole)
			}
			x, y := l.left+float64(k)*l.cell, l.top+float64(i)*l.cell
			c.rect(x, y, l.cell, l.cell, grid)
			c.rect(x+0.5, y+0.5, l.cell-1, l.cell-1, shade(share))
			if l.named && !(m.HideZeros && v == 0) {
				color := ink
				if share > 0.55 {
					color = paper
				}
				c.text(xy{x + l.cell/2, y + l.cell/2 + tickSize*0.35}, cellText(v), font{size: tickSize}, middle, color)
			}
		}
	}
}

// shade is a color between paper and the first of the palette. Small parts are
// lifted a little, so that few mistakes among many examples can be seen.
func shade(share float64) string {
	share = math.Sqrt(share)*0.35 + share*0.65
	mix := func(from, to uint8) int { return int(math.Round(float64(from) + share*(float64(to)-float64(from)))) }
	a, b := parseColor(paper).C, parseColor(palette[0]).C
	ar, ag, ab, _ := a.RGBA()
	br, bg, bb, _ := b.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", mix(uint8(ar>>8), uint8(br>>8)), mix(uint8(ag>>8), uint8(bg>>8)), mix(uint8(ab>>8), uint8(bb>>8)))
}
