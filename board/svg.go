package board

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/locusml/locus/internal/gate"
)

// WriteSVG writes the curves as an SVG document. Up to six panels are two in a row, more are smaller, three in a row.
func (b *Board) WriteSVG(w io.Writer) error {
	gate.Receiver("board.Board.WriteSVG", b != nil, "use new(board.Board)")
	if err := gate.Given("the writer", w); err != nil {
		return fmt.Errorf("board: %w", err)
	}
	return b.figure().writeSVG(w)
}

// WritePanelSVG writes one panel as an SVG document, small enough to stand next to others; "" is the main one. A
// panel without points is an error that lists those that have some.
func (b *Board) WritePanelSVG(w io.Writer, name string) error {
	gate.Receiver("board.Board.WritePanelSVG", b != nil, "use new(board.Board)")
	if err := gate.Given("the writer", w); err != nil {
		return fmt.Errorf("board: %w", err)
	}
	f := b.figure()
	i := slices.IndexFunc(f.panels, func(p panel) bool { return p.name == cleanName(name) && len(p.curves) > 0 })
	if i < 0 {
		return fmt.Errorf("board: there is no panel %q with points; there are %q", name, b.Panels())
	}
	return figure{card: true, panels: f.panels[i : i+1]}.writeSVG(w)
}

func (f figure) writeSVG(w io.Writer) error {
	panels := f.panels
	c := svgCanvas{buf: bufio.NewWriterSize(w, 1<<16)} // a picture of many panels is long
	width, height := f.layout().size()
	c.begin(width, height, describe(panels))
	f.draw(&c)
	c.printf("</svg>\n")
	return c.buf.Flush()
}

// describe says in words what the picture shows, for those who cannot see it.
func describe(panels []panel) string {
	var parts []string
	for _, p := range panels {
		names := make([]string, len(p.curves))
		for i, c := range p.curves {
			names[i] = c.label
		}
		text := strings.Join(names, ", ")
		if p.axes.Title != "" {
			text = p.axes.Title + ": " + text
		}
		if p.axes.XLabel != "" {
			text += " by " + p.axes.XLabel
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// svgCanvas writes to a buffer that keeps the first error.
type svgCanvas struct{ buf *bufio.Writer }

func (c *svgCanvas) printf(format string, args ...any) { fmt.Fprintf(c.buf, format, args...) }

// begin writes the head of a document, with its content in words.
func (c *svgCanvas) begin(width, height float64, words string) {
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif">`+"\n",
		num(width), num(height), num(width), num(height))
	c.printf("<title>%s</title>\n", escape(words))
}

// num writes a coordinate to a tenth of a pixel.
func num(v float64) string {
	return trimZero(strconv.FormatFloat(math.Round(v*10)/10+0, 'f', 1, 64))
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // a Builder has no errors
	return b.String()
}

// grain is half a unit: who looks closer sees where the curve goes all the same.
func (c *svgCanvas) grain() float64 { return 0.5 }

func (c *svgCanvas) rect(x, y, w, h float64, color string) {
	c.printf(`<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", num(x), num(y), num(w), num(h), color)
}

func (c *svgCanvas) line(points []xy, color string, width float64, dash []float64) {
	c.printf(`<polyline fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round" stroke-linecap="round"`, color, num(width))
	for i, d := range dash {
		c.printf("%s%s", map[bool]string{true: ` stroke-dasharray="`, false: " "}[i == 0], num(d))
	}
	if len(dash) > 0 {
		c.printf(`"`)
	}
	c.printf(` points="`)
	last := ""
	for _, p := range points {
		if s := num(p.x) + "," + num(p.y); s != last {
			if last != "" {
				c.buf.WriteByte(' ')
			}
			c.buf.WriteString(s)
			last = s
		}
	}
	c.printf(`"/>` + "\n")
}

func (c *svgCanvas) dot(at xy, radius float64, color string) {
	c.printf(`<circle cx="%s" cy="%s" r="%s" fill="%s"/>`+"\n", num(at.x), num(at.y), num(radius), color)
}

func (c *svgCanvas) text(at xy, s string, f font, a anchor, color string) {
	c.printf(`<text x="%s" y="%s" font-size="%s" fill="%s"`, num(at.x), num(at.y), num(f.size), color)
	if f.bold {
		c.printf(` font-weight="600"`)
	}
	if a != start {
		c.printf(` text-anchor="%s"`, map[anchor]string{middle: "middle", end: "end"}[a])
	}
	if f.upright {
		c.printf(` transform="rotate(-90 %s %s)"`, num(at.x), num(at.y))
	}
	c.printf(">%s</text>\n", escape(s))
}
