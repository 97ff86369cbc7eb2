package sketch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Graph is steps in the order in which they run, and what passes between them.
type Graph struct {
	Title string
	Notes []string // below the title
	Boxes []Box
	Edges []Edge // From < To
}

// Box is a step, or several.
type Box struct {
	Kind   Kind
	Number string   // which step, or steps
	Title  string   // what it does
	Parts  []string // of a fused step, or of several: what it does in detail
	Makes  string   // shapes of its results
	Reads  []string // what it reads from outside of the program
	Writes []string // which results of the program it makes
	Site   string   // the line that it comes from
	Tip    string   // everything
	Time   string   // that it took; "" if nobody knows
	Share  float64  // of all time
}

// Edge is a value that one box makes and another reads.
type Edge struct {
	From, To int
	Label    string
}

// What a box measures.
const (
	boxWidth  = 390.
	boxGap    = 16.
	boxPad    = 12.
	lineStep  = 17.
	partStep  = 22.
	margin    = 16.
	laneRoom  = 150. // the most that lanes take
	laneApart = 10.
)

// lane is a value on its way to boxes that do not follow at once.
type lane struct {
	from  int
	to    []int
	label string
	at    int // 0 is next to the boxes
}

// WriteSVG writes the graph as a column of boxes. What the next box reads is an arrow
// between both; what later ones read goes along the boxes in a lane of its own, so that
// it can be seen how long it is kept.
func (g *Graph) WriteSVG(w io.Writer) error {
	all, count := g.lanes()
	apart := laneApart
	if count > 0 {
		apart = min(laneApart, laneRoom/float64(count))
	}
	left := margin + float64(count)*apart + 14
	if count == 0 {
		left = margin
	}
	p := &page{width: left + boxWidth + margin}
	y := p.head(g.Title, g.Notes)
	seen := map[Kind]bool{}
	for _, b := range g.Boxes {
		seen[b.Kind] = true
	}
	y += p.legend(margin, y+4, p.width-2*margin, seen) + 8
	tops, bottoms := make([]float64, len(g.Boxes)), make([]float64, len(g.Boxes))
	var boxes page
	for i := range g.Boxes {
		tops[i] = y
		y = g.Boxes[i].draw(&boxes, left, y)
		bottoms[i] = y
		y += boxGap
	}
	g.arrows(p, left, tops, bottoms)
	g.drawLanes(p, all, left, apart, tops, bottoms)
	p.Write(boxes.Bytes())
	p.height = y - boxGap + margin
	if len(g.Boxes) == 0 {
		p.height = y + margin
	}
	return p.writeTo(w, fmt.Sprintf("%s: %d steps in the order in which they run, with what they pass on", g.Title, len(g.Boxes)))
}

// head writes title and notes, and returns where the picture goes on.
func (p *page) head(title string, notes []string) float64 {
	y := margin + 16.
	p.text(margin, y, "ink head", "", fit(title, 16, p.width-2*margin))
	for _, n := range notes {
		for _, line := range wrap(n, 12, p.width-2*margin) {
			y += 18
			p.text(margin, y, "muted", "", line)
		}
	}
	return y + 22
}

// wrap breaks text into lines of a width.
func wrap(s string, size, room float64) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case wide(line+" "+word, size) <= room:
			line += " " + word
		default:
			lines = append(lines, fit(line, size, room))
			line = word
		}
	}
	if line != "" {
		lines = append(lines, fit(line, size, room))
	}
	return lines
}

// some lists names, or some of them.
func some(l []string) string {
	const enough = 3
	if len(l) > enough {
		return fmt.Sprintf("%s and %d more", strings.Join(l[:enough-1], ", "), len(l)-enough+1)
	}
	return strings.Join(l, ", ")
}

// draw writes the box from y on and returns where it ends.
func (b *Box) draw(p *page, x, y float64) float64 {
	var in page
	top, right := y, x+boxWidth-boxPad
	x += boxPad + 4
	y += 20
	room := right - x
	if b.Time != "" {
		in.text(right, y, "ink", "end", b.Time)
		in.rect(right-60, y+5, 60, 4, 2, "track", "")
		in.rect(right-60, y+5, max(60*min(b.Share, 1), 0.5), 4, 2, fmt.Sprintf("k%d", b.Kind), "")
		room -= max(wide(b.Time, 12), 60) + 10
	}
	if b.Number != "" {
		in.text(x, y, "muted", "", b.Number)
		x += wide(b.Number, 12) + 8
		room -= wide(b.Number, 12) + 8
	}
	in.text(x, y, "ink bold", "", fit(b.Title, 12.5, room))
	x = right - boxWidth + 2*boxPad + 4
	room = right - x
	if len(b.Parts) > 0 {
		at := x
		y += 8
		if b.Time != "" {
			y += 3
		}
		for _, part := range b.Parts {
			part = fit(part, 11, room-14)
			w := wide(part, 11) + 12
			if at > x && at+w > right {
				at, y = x, y+partStep
			}
			in.rect(at, y, w, 18, 4, "part", "")
			in.text(at+w/2, y+13, "ink small", "middle", part)
			at += w + 5
		}
		y += 18
	}
	line := func(class, s string) {
		if s != "" {
			y += lineStep
			in.text(x, y, class, "", fit(s, 12, room))
		}
	}
	if b.Time != "" && len(b.Parts) == 0 {
		room -= 70 // beside the bar
	}
	line("ink", b.Makes)
	room = right - x
	if len(b.Reads) > 0 {
		line("muted", "reads "+some(b.Reads))
	}
	if len(b.Writes) > 0 {
		line("muted", "makes "+some(b.Writes))
	}
	line("muted small", b.Site)
	y += 11
	p.printf("<g><title>%s</title>\n", escape(b.Tip))
	p.rect(x-boxPad-4, top, boxWidth, y-top, 7, "card", "")
	p.rect(x-boxPad-4, top+5, 4, y-top-10, 2, fmt.Sprintf("k%d", b.Kind), "")
	p.Write(in.Bytes())
	p.printf("</g>\n")
	return y
}

// lanes returns a lane for each edge that passes by boxes, short ones next to the
// boxes.
func (g *Graph) lanes() (all []*lane, count int) {
	type key struct {
		from  int
		label string
	}
	by := map[key]*lane{}
	for _, e := range g.Edges {
		if e.To == e.From+1 {
			continue
		}
		k := key{e.From, e.Label}
		if by[k] == nil {
			by[k] = &lane{from: e.From, label: e.Label}
			all = append(all, by[k])
		}
		if l := by[k]; !slices.Contains(l.to, e.To) {
			l.to = append(l.to, e.To)
		}
	}
	for _, l := range all {
		slices.Sort(l.to)
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.length(), b.length()), cmp.Compare(a.from, b.from))
	})
	var placed [][]*lane
	for _, l := range order {
		for l.at < len(placed) && slices.ContainsFunc(placed[l.at], func(o *lane) bool { return o.from < l.end() && l.from < o.end() }) {
			l.at++
		}
		if l.at == len(placed) {
			placed = append(placed, nil)
		}
		placed[l.at] = append(placed[l.at], l)
	}
	return all, len(placed)
}

func (l *lane) end() int    { return l.to[len(l.to)-1] }
func (l *lane) length() int { return l.end() - l.from }

// arrows writes what passes from a box to the next.
func (g *Graph) arrows(p *page, left float64, tops, bottoms []float64) {
	done := map[int]bool{}
	for _, e := range g.Edges {
		if e.To != e.From+1 || done[e.From] {
			continue
		}
		done[e.From] = true
		x, y := left+28, tops[e.To]
		p.line(x, bottoms[e.From], x, y-5, "arrow", `stroke-width="1.6"`)
		p.printf(`<path d="M%s %sl-4 -6h8z" class="muted"/>`+"\n", num(x), num(y))
	}
}

// drawLanes writes the others.
func (g *Graph) drawLanes(p *page, all []*lane, left, apart float64, tops, bottoms []float64) {
	in := make([]int, len(g.Boxes)) // arrows that have come in
	out := make([]int, len(g.Boxes))
	for i, l := range all {
		x := left - 14 - float64(l.at)*apart
		hue := i % len(light.lanes)
		begin := bottoms[l.from] - 8 - 6*float64(out[l.from])
		begin = max(begin, tops[l.from]+8)
		out[l.from]++
		r := min(6, left-x-2)
		path := fmt.Sprintf("M%s %sH%sq%s 0 %s %s", num(left), num(begin), num(x+r), num(-r), num(-r), num(r))
		var heads []string
		for k, to := range l.to {
			y := min(tops[to]+12+7*float64(in[to]), bottoms[to]-6)
			in[to]++
			if k == len(l.to)-1 {
				path += fmt.Sprintf("V%sq0 %s %s %sH%s", num(y-r), num(r), num(r), num(r), num(left-5))
			} else {
				path += fmt.Sprintf("V%sH%sM%s %s", num(y), num(left-5), num(x), num(y))
			}
			heads = append(heads, fmt.Sprintf("M%s %sl-6 -3.5v7z", num(left), num(y)))
		}
		p.printf(`<g><title>%s</title><path class="lane l%d" d="%s"/><path class="a%d" d="%s"/></g>`+"\n", escape(l.label), hue, path, hue, strings.Join(heads, ""))
	}
}

// WriteDOT writes the graph in the language of Graphviz.
func (g *Graph) WriteDOT(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  label=%s; labelloc=t; rankdir=TB;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"Helvetica\", fontsize=11];\n  edge [fontname=\"Helvetica\", fontsize=9];\n",
		quote(g.Title), quote(strings.Join(append([]string{g.Title}, g.Notes...), "\n")))
	outer := map[string]string{}
	var order []string
	node := func(name string) string {
		if outer[name] == "" {
			outer[name] = fmt.Sprintf("x%d", len(outer))
			order = append(order, name)
		}
		return outer[name]
	}
	var edges strings.Builder
	for i := range g.Boxes {
		x := &g.Boxes[i]
		lines := []string{strings.TrimSpace(x.Number + " " + x.Title)}
		if len(x.Parts) > 0 {
			lines = append(lines, strings.Join(x.Parts, " · "))
		}
		for _, s := range []string{x.Makes, x.Site, x.Time} {
			if s != "" {
				lines = append(lines, s)
			}
		}
		fmt.Fprintf(&b, "  s%d [label=%s, tooltip=%s, color=%s];\n", i, quote(strings.Join(lines, "\n")), quote(x.Tip), quote(light.kinds[x.Kind]))
		for _, r := range x.Reads {
			fmt.Fprintf(&edges, "  %s -> s%d;\n", node(r), i)
		}
		for _, r := range x.Writes {
			fmt.Fprintf(&edges, "  s%d -> %s;\n", i, node(r))
		}
	}
	for _, name := range order {
		fmt.Fprintf(&b, "  %s [label=%s, shape=ellipse, style=\"\"];\n", outer[name], quote(name))
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  s%d -> s%d [label=%s];\n", e.From, e.To, quote(e.Label))
	}
	b.WriteString(edges.String())
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// quote writes a string of DOT: a quotation mark is escaped, and a backslash is doubled,
// since others begin an escape of a label.
func quote(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
