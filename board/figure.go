package board

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Sizes of a picture, in units that are pixels on a plain screen.
const (
	wide, high           = 720.0, 420.0 // of a panel that is alone
	halfWide, halfHigh   = 540.0, 340.0 // of a few, two in a row
	manyPanels           = 6            // more of them are smaller, three in a row
	smallWide, smallHigh = 360.0, 240.0
	cardWide, cardHigh   = 460.0, 310.0 // of a panel in a document of its own, to stand next to others
	panelsInRow          = 3

	headHeight = 44.0 // of the title above all panels
	headSize   = 19.0
	titleSize  = 16.0
	labelSize  = 13.0
	tickSize   = 12.0
	lineWidth  = 1.8
	dotRadius  = 2.6
	fewPoints  = 30 // curves with fewer have a dot at each
	legendRow  = 20.0
	legendLine = 18.0
)

// Colors of a picture. web/board.css has the same ones for light mode.
const (
	paper = "#ffffff"
	ink   = "#1c2128"
	muted = "#57606c"
	grid  = "#e7eaee"
	frame = "#b6bec9"
)

// palette is told apart by most people with a color deficiency, too; series beyond it repeat it with dashes.
var palette = []string{"#2468d8", "#e07000", "#11875d", "#cf3440", "#8250df", "#0a8fa3", "#bf3989", "#80632b"}

var dashes = [][]float64{nil, {7, 4}, {2, 3}, {8, 3, 2, 3}}

func styleOf(color int) (string, []float64) {
	return palette[color%len(palette)], dashes[color/len(palette)%len(dashes)]
}

// canvas is what a picture is drawn on: an SVG document or an image.
type canvas interface {
	rect(x, y, w, h float64, color string)
	line(points []xy, color string, width float64, dash []float64)
	dot(at xy, radius float64, color string)
	text(at xy, s string, f font, anchor anchor, color string)
	grain() float64 // the smallest distance that can be seen
}

type font struct {
	size    float64
	bold    bool
	upright bool // turned to read upwards
}

type anchor uint8

const (
	start anchor = iota
	middle
	end
)

// panel is a copy of what one panel shows.
type panel struct {
	name   string
	axes   Axes
	curves []panelCurve
}

type panelCurve struct {
	label  string
	color  int
	points []xy
}

// figure is a copy of what the board shows.
type figure struct {
	title  string  // above all panels, or ""
	card   bool    // one panel in a document of its own
	panels []panel // the main one first; there is always one
}

// figure copies what the board shows.
func (b *Board) figure() figure {
	b.mu.Lock()
	defer b.mu.Unlock()
	return figure{title: b.title(), panels: b.panels()}
}

// panels copies what the panels show. The caller holds b.mu.
func (b *Board) panels() []panel {
	groups := b.groups()
	panels := make([]panel, 0, len(groups))
	for _, g := range groups {
		p := panel{name: g.panel, axes: b.panelAxes(g.panel)}
		for _, id := range g.series {
			s := b.series[id]
			p.curves = append(p.curves, panelCurve{s.label, s.color, s.curve.points()})
		}
		panels = append(panels, p)
	}
	return panels
}

// group is a panel and the places of its series in Board.series.
type group struct {
	panel  string
	series []int
}

// groups lists the panels that have points, the main one first, in one pass: pages ask for it several times per second.
// There is always one. The caller holds b.mu.
func (b *Board) groups() []group {
	var groups []group
	at := map[string]int{}
	for id, s := range b.series {
		if s.count == 0 {
			continue
		}
		i, known := at[s.panel]
		if !known {
			i = len(groups)
			at[s.panel] = i
			groups = append(groups, group{panel: s.panel})
		}
		groups[i].series = append(groups[i].series, id)
	}
	if i := at[""]; i > 0 {
		main := groups[i]
		groups = slices.Insert(slices.Delete(groups, i, i+1), 0, main)
	}
	if len(groups) == 0 {
		groups = []group{{}}
	}
	return groups
}

// panelAxes returns the axes of a panel with what it takes over from the main one. The caller holds b.mu.
func (b *Board) panelAxes(name string) Axes {
	a := b.axes[name]
	if name != "" {
		if a.Title == "" {
			a.Title = name
		}
		if a.XLabel == "" {
			a.XLabel = b.axes[""].XLabel
		}
	}
	return a
}

// layout is how n panels are arranged: one alone, a few two in a row, many smaller ones three in a row.
type layout struct {
	n, columns int
	w, h       float64 // of a panel
	top        float64 // where the first row begins
}

func (f figure) layout() layout {
	l := layout{n: len(f.panels), columns: 1, w: wide, h: high}
	switch {
	case f.card:
		l.w, l.h = cardWide, cardHigh
	case l.n > manyPanels:
		l.columns, l.w, l.h = panelsInRow, smallWide, smallHigh
	case l.n > 1:
		l.columns, l.w, l.h = 2, halfWide, halfHigh
	}
	if f.title != "" {
		l.top = headHeight
	}
	return l
}

// size is that of the picture.
func (l layout) size() (w, h float64) {
	return l.w * float64(l.columns), l.top + l.h*float64((l.n+l.columns-1)/l.columns)
}

// place is where panel i lies.
func (l layout) place(i int) box {
	x, y := l.w*float64(i%l.columns), l.top+l.h*float64(i/l.columns)
	return box{x, y, x + l.w, y + l.h}
}

func (f figure) draw(c canvas) {
	l := f.layout()
	w, h := l.size()
	c.rect(0, 0, w, h, paper)
	if f.title != "" {
		bold := font{size: headSize, bold: true}
		c.text(xy{w / 2, headHeight - 10}, shorten(f.title, w-48, bold), bold, middle, ink)
	}
	for i, p := range f.panels {
		p.draw(c, l.place(i))
	}
}

// draw draws the panel into a box.
func (p panel) draw(c canvas, in box) {
	xs, ys := p.fit()
	yTicks, xTicks := 6, 8
	if in.x1-in.x0 < wide {
		yTicks, xTicks = 4, 4
	}

	// The left margin depends on the widest label of the ticks.
	yMarks := ys.ticks(yTicks)
	left := 0.0
	for _, t := range yMarks {
		left = max(left, textWidth(t.label, font{size: tickSize}))
	}
	left += in.x0 + 24
	if p.axes.YLabel != "" {
		left += labelSize + 10
	}
	right := in.x1 - 24
	bottom := in.y1 - 36
	if p.axes.XLabel != "" {
		bottom -= labelSize + 8
	}
	y := in.y0 + 16
	if p.axes.Title != "" {
		y += titleSize
		c.text(xy{left, y}, shorten(p.axes.Title, right-left, font{size: titleSize, bold: true}), font{size: titleSize, bold: true}, start, ink)
		y += 10
	}
	y = p.drawLegend(c, left, right, y, max(1, int(0.4*(in.y1-in.y0)/legendRow)))
	area := box{left, y + 10, right, bottom}

	for _, t := range yMarks {
		at := area.y1 - ys.at(t.value)*(area.y1-area.y0)
		c.rect(area.x0, math.Round(at)-0.5, area.x1-area.x0, 1, grid)
		c.text(xy{area.x0 - 8, at + tickSize*0.35}, t.label, font{size: tickSize}, end, muted)
	}
	for _, t := range xs.ticks(xTicks) {
		at := area.x0 + xs.at(t.value)*(area.x1-area.x0)
		c.rect(math.Round(at)-0.5, area.y1, 1, 5, frame)
		c.text(xy{at, area.y1 + 9 + tickSize}, t.label, font{size: tickSize}, middle, muted)
	}
	c.rect(area.x0, area.y1-0.5, area.x1-area.x0, 1, frame)
	if p.axes.XLabel != "" {
		f := font{size: labelSize}
		c.text(xy{(area.x0 + area.x1) / 2, in.y1 - 16}, shorten(p.axes.XLabel, area.x1-area.x0, f), f, middle, ink)
	}
	if p.axes.YLabel != "" {
		f := font{size: labelSize, upright: true}
		c.text(xy{in.x0 + 14 + labelSize*0.8, (area.y0 + area.y1) / 2}, shorten(p.axes.YLabel, area.y1-area.y0, f), f, middle, ink)
	}
	for _, curve := range p.curves {
		color, dash := styleOf(curve.color)
		onScreen := make([]xy, len(curve.points))
		for i, q := range curve.points {
			onScreen[i] = xy{area.x0 + xs.at(q.x)*(area.x1-area.x0), area.y1 - ys.at(q.y)*(area.y1-area.y0)}
		}
		for _, run := range clip(thin(onScreen, c.grain()), area) {
			c.line(run, color, lineWidth, dash)
		}
		for i, q := range onScreen {
			alone := (i == 0 || !onScreen[i-1].finite()) && (i+1 == len(onScreen) || !onScreen[i+1].finite())
			if (alone || len(onScreen) < fewPoints) && area.holds(q) {
				c.dot(q, dotRadius, color)
			}
		}
	}
	if len(p.curves) == 0 {
		c.text(xy{(area.x0 + area.x1) / 2, (area.y0 + area.y1) / 2}, "no points yet", font{size: labelSize}, middle, muted)
	}
}

// drawLegend writes the names in at most the given number of rows and returns where the last row ends.
func (p panel) drawLegend(c canvas, left, right, y float64, rows int) float64 {
	f := font{size: tickSize}
	x, row := left, 0
	for i, curve := range p.curves {
		color, dash := styleOf(curve.color)
		rest := ""
		if i+1 < len(p.curves) {
			rest = fmt.Sprintf("and %d more", len(p.curves)-i)
		}
		label := shorten(curve.label, right-left-legendLine-6, f)
		width := legendLine + 6 + textWidth(label, f)
		room := right
		if row == rows && rest != "" {
			room -= 18 + textWidth(rest, f) // what may have to follow
		}
		if i == 0 || x+width > room {
			if row == rows {
				c.text(xy{x, y - legendRow/2 + tickSize*0.35}, fmt.Sprintf("and %d more", len(p.curves)-i), f, start, muted)
				return y
			}
			x, y, row = left, y+legendRow, row+1
		}
		mid := y - legendRow/2
		c.line([]xy{{x, mid}, {x + legendLine, mid}}, color, lineWidth+0.4, dash)
		c.text(xy{x + legendLine + 6, mid + tickSize*0.35}, label, f, start, ink)
		x += width + 18
	}
	return y
}

// fit makes the axes from what the panel shows.
func (p panel) fit() (x, y axis) {
	inf := math.Inf(1)
	xlo, xhi, ylo, yhi := inf, -inf, inf, -inf
	for _, curve := range p.curves {
		for _, q := range curve.points {
			if !q.finite() || p.axes.XScale == Log && q.x <= 0 || p.axes.YScale == Log && q.y <= 0 {
				continue
			}
			if lim := p.axes.XLim; lim != [2]float64{} && (q.x < lim[0] || q.x > lim[1]) {
				continue
			}
			xlo, xhi = min(xlo, q.x), max(xhi, q.x)
			ylo, yhi = min(ylo, q.y), max(yhi, q.y)
		}
	}
	if p.axes.YFromZero && p.axes.YScale == Linear && ylo > 0 && ylo <= yhi {
		ylo = 0
	}
	return fitAxis(p.axes.XScale, p.axes.XLim, xlo, xhi, 0), fitAxis(p.axes.YScale, p.axes.YLim, ylo, yhi, 0.05)
}

// shorten cuts s to the width, with an ellipsis.
func shorten(s string, width float64, f font) string {
	if textWidth(s, f) <= width {
		return s
	}
	runes := []rune(s)
	cut := func(n int) string { return strings.TrimSpace(string(runes[:n])) + "…" }
	n := sort.Search(len(runes), func(n int) bool { return textWidth(cut(n), f) > width })
	return cut(max(0, n-1))
}

// box is a rectangle with y growing downwards.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) holds(p xy) bool {
	return p.x >= b.x0-0.01 && p.x <= b.x1+0.01 && p.y >= b.y0-0.01 && p.y <= b.y1+0.01
}

// thin leaves out points that cannot be seen: of those in a row that lie in one column of the given width it keeps the
// first, the lowest, the highest and the last, in their order. What is drawn covers the same.
func thin(points []xy, width float64) []xy {
	out := make([]xy, 0, min(len(points), 4096))
	for from := 0; from < len(points); {
		to := from + 1
		column := math.Floor(points[from].x / width)
		low, high := from, from
		for ; to < len(points) && points[from].finite() && points[to].finite() && math.Floor(points[to].x/width) == column; to++ {
			if points[to].y < points[low].y {
				low = to
			}
			if points[to].y > points[high].y {
				high = to
			}
		}
		last := -1
		for _, i := range []int{from, min(low, high), max(low, high), to - 1} {
			if i != last {
				out = append(out, points[i])
				last = i
			}
		}
		from = to
	}
	return out
}

// clip returns the parts of a line that lie in the box. The line is broken where it is not finite.
func clip(points []xy, b box) [][]xy {
	var runs [][]xy
	var run []xy
	flush := func() {
		if len(run) > 1 {
			runs = append(runs, run)
		}
		run = nil
	}
	for i := 1; i < len(points); i++ {
		p, q, ok := b.clipSegment(points[i-1], points[i])
		if !ok {
			flush()
			continue
		}
		if len(run) == 0 || !run[len(run)-1].same(p) {
			flush()
			run = append(run, p)
		}
		run = append(run, q)
	}
	flush()
	return runs
}

// clipSegment keeps the part of p–q that is inside, by narrowing the range of t in p + t(q-p) at each side.
func (b box) clipSegment(p, q xy) (xy, xy, bool) {
	if !p.finite() || !q.finite() {
		return p, q, false
	}
	d := xy{q.x - p.x, q.y - p.y}
	t0, t1 := 0.0, 1.0
	for _, side := range [...]struct{ slope, room float64 }{
		{-d.x, p.x - b.x0}, {d.x, b.x1 - p.x}, {-d.y, p.y - b.y0}, {d.y, b.y1 - p.y},
	} {
		switch t := side.room / side.slope; {
		case side.slope == 0:
			if side.room < 0 {
				return p, q, false
			}
		case side.slope < 0:
			t0 = max(t0, t)
		default:
			t1 = min(t1, t)
		}
	}
	if t0 > t1 {
		return p, q, false
	}
	from, to := p, q
	if t0 > 0 {
		from = xy{p.x + t0*d.x, p.y + t0*d.y}
	}
	if t1 < 1 {
		to = xy{p.x + t1*d.x, p.y + t1*d.y}
	}
	return from, to, true
}
