// Package sketch draws what a program is and does, as SVG and DOT text: its steps, its
// memory, its time. It knows nothing of programs, only of boxes, blocks and spans, so
// that a picture can be tested alone. Pictures are documents of their own: light and
// dark follow the reader, names are escaped, and nothing is fetched.
package sketch

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is what a step does; it decides the color.
type Kind uint8

// The kinds.
const (
	Other Kind = iota // copies, indexing, random numbers
	Product
	Elementwise
	Reduction
	Update
	Result // memory that outlives the run
	Host   // the program's time, not a device's
	kinds
)

var kindNames = [kinds]string{"other", "product", "elementwise", "reduction, norm", "update", "result", "program"}

func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// scheme are the colors of a picture.
type scheme struct {
	page, card, ink, muted, edge, on, mark string

	kinds [kinds]string // of steps
	lanes [8]string     // of edges: with several, one can be followed
}

var light = scheme{
	page: "#ffffff", card: "#f6f7f9", ink: "#1c2128", muted: "#57606c", edge: "#d4dae1", on: "#ffffff", mark: "#cf3440",
	kinds: [kinds]string{"#6b7685", "#2468d8", "#11875d", "#e07000", "#8250df", "#bf3989", "#0a8fa3"},
	lanes: [8]string{"#2468d8", "#e07000", "#11875d", "#cf3440", "#8250df", "#0a8fa3", "#bf3989", "#80632b"},
}

var dark = scheme{
	page: "#0e1116", card: "#161b22", ink: "#e6eaf0", muted: "#98a2b0", edge: "#343c47", on: "#0e1116", mark: "#ff7a82",
	kinds: [kinds]string{"#8b95a4", "#6ea4ff", "#4cc38a", "#ffa347", "#b69bff", "#f48fc9", "#45c8dc"},
	lanes: [8]string{"#6ea4ff", "#ffa347", "#4cc38a", "#ff7a82", "#b69bff", "#45c8dc", "#f48fc9", "#d0ad6a"},
}

// page is an SVG document in the making.
type page struct {
	bytes.Buffer
	width, height float64
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.Buffer, format, args...) }

// writeTo writes the document, whose size is known by now, with its content in words.
func (p *page) writeTo(w io.Writer, words string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif">`+"\n",
		num(p.width), num(p.height), num(p.width), num(p.height))
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n", escape(words))
	light.write(&b, "")
	b.WriteString("@media (prefers-color-scheme: dark) {\n")
	dark.write(&b, "  ")
	b.WriteString("}\ntext { font-size: 12px } .bold { font-weight: 600 } .small { font-size: 11px } .head { font-size: 16px; font-weight: 600 } .on { pointer-events: none }\n")
	b.WriteString("path.lane { fill: none; stroke-width: 1.6; opacity: .85 }\n</style>\n")
	fmt.Fprintf(&b, `<rect class="page" width="%s" height="%s"/>`+"\n", num(p.width), num(p.height))
	b.Write(p.Bytes())
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// write writes the scheme as CSS, each line after indent.
func (s *scheme) write(b *bytes.Buffer, indent string) {
	fmt.Fprintf(b, "%s.page { fill: %s } .card { fill: %s; stroke: %s } .part { fill: %s; stroke: %s } .ink { fill: %s } .muted { fill: %s } .grid { stroke: %s } .arrow { stroke: %s } .track { fill: %s } .on { fill: %s } .mark { stroke: %s; fill: none } .marked { fill: %s }\n",
		indent, s.page, s.card, s.edge, s.page, s.edge, s.ink, s.muted, s.edge, s.muted, s.edge, s.on, s.mark, s.mark)
	b.WriteString(indent)
	for i, c := range s.kinds {
		fmt.Fprintf(b, ".k%d { fill: %s } ", i, c)
	}
	for i, c := range s.lanes {
		fmt.Fprintf(b, ".l%d { stroke: %s } .a%d { fill: %s } ", i, c, i, c)
	}
	b.WriteString("\n")
}

// num writes a coordinate to a tenth of a pixel.
func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10+0, 'f', -1, 64) }

// escape makes text fit to stand in a document, whatever it is.
func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(strings.ToValidUTF8(s, "�"))) // a Builder has no errors
	return b.String()
}

// wide is about how wide text is: letters of a proportional font differ, so it is on
// the safe side.
func wide(s string, size float64) float64 { return 0.58 * size * float64(utf8.RuneCountInString(s)) }

// fit cuts text to a width.
func fit(s string, size, room float64) string {
	if wide(s, size) <= room {
		return s
	}
	n := max(int(room/(0.58*size))-1, 0)
	r := []rune(s)
	return string(r[:min(n, len(r))]) + "…"
}

// text writes a line. anchor is "", "middle" or "end".
func (p *page) text(x, y float64, class, anchor, s string) {
	if s == "" {
		return
	}
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	p.printf(`<text x="%s" y="%s" class="%s"%s>%s</text>`+"\n", num(x), num(y), class, anchor, escape(s))
}

// rect writes a rectangle with a tip, which may be "".
func (p *page) rect(x, y, w, h, round float64, class, tip string) {
	p.printf(`<rect x="%s" y="%s" width="%s" height="%s" class="%s"`, num(x), num(y), num(w), num(h), class)
	if round > 0 {
		p.printf(` rx="%s"`, num(round))
	}
	if tip == "" {
		p.printf("/>\n")
		return
	}
	p.printf("><title>%s</title></rect>\n", escape(tip))
}

func (p *page) line(x1, y1, x2, y2 float64, class, more string) {
	p.printf(`<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s" %s/>`+"\n", num(x1), num(y1), num(x2), num(y2), class, more)
}

// legend writes the kinds that occur, from x on, and returns the height that it takes.
func (p *page) legend(x, y, room float64, seen map[Kind]bool) float64 {
	at, top := x, y
	for k := range kinds {
		if !seen[k] {
			continue
		}
		w := 18 + wide(k.String(), 12) + 10
		if at > x && at+w > x+room {
			at, y = x, y+18
		}
		p.rect(at, y-9, 11, 11, 2, fmt.Sprintf("k%d", k), "")
		p.text(at+16, y, "muted", "", k.String())
		at += w
	}
	return y - top + 18
}
