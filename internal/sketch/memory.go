package sketch

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/locusml/locus/internal/units"
)

// Memory is where the values of a program lie while it runs.
type Memory struct {
	Title  string
	Notes  []string
	Steps  []string // what each does
	Arena  int      // bytes
	Blocks []Block
	Lists  []List // values that lie elsewhere
}

// Block is memory of the arena that is in use from the beginning of step From to the end
// of step To.
type Block struct {
	Kind         Kind
	From, To     int
	Offset, Size int
	Over         bool // what is in it at the beginning is written over: during step From both are there
	Taken        bool // likewise at its end
	Label, Tip   string
}

// List is lines below the picture.
type List struct {
	Title string
	Lines []string
}

// listed is how many lines of a list are shown.
const listed = 12

// Peak returns the step during which most memory is in use, and how much.
func (m *Memory) Peak() (step, bytes int) {
	live := make([]int, len(m.Steps)+1)
	for _, b := range m.Blocks {
		from := b.From
		if b.Over {
			from++ // it has been counted there
		}
		for i := max(from, 0); i <= b.To && i < len(m.Steps); i++ {
			live[i] += b.Size
		}
	}
	for i, n := range live {
		if n > bytes {
			step, bytes = i, n
		}
	}
	return step, bytes
}

// WriteSVG writes the plan: time goes to the right, addresses go up.
func (m *Memory) WriteSVG(w io.Writer) error {
	const x0, high = 76., 300.
	p := &page{width: 760}
	right := p.width - margin
	y := p.head(m.Title, m.Notes)
	seen := map[Kind]bool{}
	for _, b := range m.Blocks {
		seen[b.Kind] = true
	}
	y += p.legend(margin, y+4, p.width-2*margin, seen) + 20
	n := max(len(m.Steps), 1)
	X := func(step float64) float64 { return x0 + (right-x0)*step/float64(n) }
	Y := func(at int) float64 { return y + high - high*float64(at)/float64(max(m.Arena, 1)) }
	for _, at := range ticks(m.Arena) {
		p.line(x0, Y(at), right, Y(at), "grid", `stroke-width="1"`)
		p.text(x0-8, Y(at)+4, "muted small", "end", units.Bytes(at))
	}
	for _, b := range m.Blocks {
		from, to := X(float64(b.From)), X(float64(b.To+1))
		if b.Over {
			from = X(float64(b.From) + 0.5)
		}
		if b.Taken {
			to = X(float64(b.To) + 0.5)
		}
		top, foot := Y(b.Offset+b.Size), Y(b.Offset)
		p.printf(`<g opacity="0.9">`)
		p.rect(from, top, max(to-from-0.6, 0.4), max(foot-top-0.6, 0.4), min(2, (foot-top)/4), fmt.Sprintf("k%d", b.Kind), b.Tip)
		p.printf("</g>\n")
		if label := b.Label; foot-top >= 13 && wide(label, 11) <= to-from-8 {
			p.text((from+to)/2, (top+foot)/2+4, "on small", "middle", label)
		}
	}
	if step, bytes := m.Peak(); bytes > 0 {
		x := (X(float64(step)) + X(float64(step+1))) / 2
		p.line(x, y-6, x, y+high, "mark", `stroke-width="1.4" stroke-dasharray="4 3"`)
		what := fmt.Sprintf("peak: %s in use at step %d, %s", units.Bytes(bytes), step, fit(m.Steps[step], 11, 200))
		anchor := "middle"
		switch half := wide(what, 11) / 2; {
		case x+half > right:
			anchor, x = "end", right
		case x-half < margin:
			anchor, x = "", margin
		}
		p.text(x, y-9, "marked small", anchor, what)
	}
	p.line(x0, y+high, right, y+high, "grid", `stroke-width="1.2"`)
	last := math.Inf(-1)
	for i := range n {
		every := stepsApart(n)
		if i%every != 0 || i >= len(m.Steps) {
			continue
		}
		if x := (X(float64(i)) + X(float64(i+1))) / 2; x-last > 22 {
			p.text(x, y+high+15, "muted small", "middle", fmt.Sprint(i))
			last = x
		}
	}
	p.text((x0+right)/2, y+high+32, "muted", "middle", "step")
	y += high + 52
	for _, l := range m.Lists {
		if len(l.Lines) == 0 {
			continue
		}
		y += 6
		p.text(margin, y, "ink bold", "", fit(l.Title, 12.5, p.width-2*margin))
		lines := l.Lines
		if len(lines) > listed {
			lines = append(slices.Clone(lines[:listed-1]), fmt.Sprintf("and %d more", len(l.Lines)-listed+1))
		}
		for _, s := range lines {
			y += lineStep
			p.text(margin+12, y, "muted", "", fit(s, 12, p.width-2*margin-12))
		}
		y += 20
	}
	p.height = y
	return p.writeTo(w, fmt.Sprintf("%s: an arena of %s in %d steps", m.Title, units.Bytes(m.Arena), len(m.Steps)))
}

// stepsApart is how many steps lie between two numbers of the axis.
func stepsApart(n int) int {
	for _, d := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500} {
		if n/d <= 25 {
			return d
		}
	}
	return 1000 * max(n/25000, 1)
}

// ticks returns some round sizes up to n.
func ticks(n int) []int {
	if n <= 0 {
		return []int{0}
	}
	step := 1
	for n/step > 6 {
		step *= 2
	}
	var l []int
	for at := 0; at <= n; at += step {
		l = append(l, at)
	}
	return l
}
