package board

import (
	"math"
	"slices"
	"strings"
)

// Sizes of a picture, in units that are pixels on a plain screen.
const (
	figureWidth = 720.0
	panelHeight = 420.0

	titleSize  = 16.0
	labelSize  = 13.0
	tickSize   = 12.0
	lineWidth  = 1.8
	dotRadius  = 2.6
	fewPoints  = 30 // curves with fewer have a dot at each
	legendRow  = 20.0
	legendLine = 18.0
)

// Colours of a picture. web/board.css has the same ones for light mode.
const (
	paper = "#ffffff"
	ink   = "#1c2128"
	muted = "#57606c"
	grid  = "#e7eaee"
	frame = "#b6bec9"
)

// palette is told apart by most people with a colour deficiency, too; series beyond it repeat it with dashes.
var palette = []string{"#2468d8", "#e07000", "#11875d", "#cf3440", "#8250df", "#0a8fa3", "#bf3989", "#80632b"}

var dashes = [][]float64{nil, {7, 4}, {2, 3}, {8, 3, 2, 3}}

func styleOf(colour int) (string, []float64) {
	return palette[colour%len(palette)], dashes[colour/len(palette)%len(dashes)]
}

// canvas is what a picture is drawn on: an SVG document or an image.
type canvas interface {
	rect(x, y, w, h float64, colour string)
	line(points []xy, colour string, width float64, dash []float64)
	dot(at xy, radius float64, colour string)
	text(at xy, s string, f font, anchor anchor, colour string)
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
	colour int
	points []xy
}

// panels copies what the board shows, the main panel first. There is always one.
func (b *Board) panels() []panel {
	b.mu.Lock()
	defer b.mu.Unlock()
	var panels []panel
	for _, name := range b.panelNames() {
		p := panel{name: name, axes: b.panelAxes(name)}
		for _, s := range b.series {
			if s.panel == name && s.count > 0 {
				p.curves = append(p.curves, panelCurve{s.label, s.colour, s.curve.points()})
			}
		}
		panels = append(panels, p)
	}
	return panels
}

// panelNames lists the panels that have series. The caller holds b.mu.
func (b *Board) panelNames() []string {
	var names []string
	for _, s := range b.series {
		if s.count > 0 && !slices.Contains(names, s.panel) {
			names = append(names, s.panel)
		}
	}
	if i := slices.Index(names, ""); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "")
	}
	if len(names) == 0 {
		names = []string{""}
	}
	return names
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

func figureSize(panels []panel) (w, h float64) {
	return figureWidth, panelHeight * float64(len(panels))
}

func drawFigure(c canvas, panels []panel) {
	w, h := figureSize(panels)
	c.rect(0, 0, w, h, paper)
	for i, p := range panels {
		p.draw(c, panelHeight*float64(i))
	}
}

// draw draws the panel below the given height.
func (p panel) draw(c canvas, top float64) {
	xs, ys := p.fit()
	const yTicks, xTicks = 6, 8

	// The left margin depends on the widest label of the ticks.
	yMarks := ys.ticks(yTicks)
	left := 0.0
	for _, t := range yMarks {
		left = max(left, textWidth(t.label, font{size: tickSize}))
	}
	left += 24
	if p.axes.YLabel != "" {
		left += labelSize + 10
	}
	right := figureWidth - 24
	bottom := top + panelHeight - 36
	if p.axes.XLabel != "" {
		bottom -= labelSize + 8
	}
	y := top + 16
	if p.axes.Title != "" {
		y += titleSize
		c.text(xy{left, y}, shorten(p.axes.Title, right-left, font{size: titleSize, bold: true}), font{size: titleSize, bold: true}, start, ink)
		y += 10
	}
	y = p.drawLegend(c, left, right, y)
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
		c.text(xy{(area.x0 + area.x1) / 2, top + panelHeight - 16}, shorten(p.axes.XLabel, area.x1-area.x0, f), f, middle, ink)
	}
	if p.axes.YLabel != "" {
		f := font{size: labelSize, upright: true}
		c.text(xy{14 + labelSize*0.8, (area.y0 + area.y1) / 2}, shorten(p.axes.YLabel, area.y1-area.y0, f), f, middle, ink)
	}
	for _, curve := range p.curves {
		colour, dash := styleOf(curve.colour)
		onScreen := make([]xy, len(curve.points))
		for i, q := range curve.points {
			onScreen[i] = xy{area.x0 + xs.at(q.x)*(area.x1-area.x0), area.y1 - ys.at(q.y)*(area.y1-area.y0)}
		}
		for _, run := range clip(onScreen, area) {
			c.line(run, colour, lineWidth, dash)
		}
		for i, q := range onScreen {
			alone := (i == 0 || !onScreen[i-1].finite()) && (i+1 == len(onScreen) || !onScreen[i+1].finite())
			if (alone || len(onScreen) < fewPoints) && area.holds(q) {
				c.dot(q, dotRadius, colour)
			}
		}
	}
	if len(p.curves) == 0 {
		c.text(xy{(area.x0 + area.x1) / 2, (area.y0 + area.y1) / 2}, "no points yet", font{size: labelSize}, middle, muted)
	}
}

// drawLegend writes the names in rows and returns where the last row ends.
func (p panel) drawLegend(c canvas, left, right, y float64) float64 {
	f := font{size: tickSize}
	x := left
	for i, curve := range p.curves {
		colour, dash := styleOf(curve.colour)
		label := shorten(curve.label, right-left-legendLine-6, f)
		width := legendLine + 6 + textWidth(label, f)
		if i == 0 || x+width > right {
			x, y = left, y+legendRow
		}
		mid := y - legendRow/2
		c.line([]xy{{x, mid}, {x + legendLine, mid}}, colour, lineWidth+0.4, dash)
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
	return fitAxis(p.axes.XScale, p.axes.XLim, xlo, xhi, 0), fitAxis(p.axes.YScale, p.axes.YLim, ylo, yhi, 0.05)
}

// shorten cuts s to the width, with an ellipsis.
func shorten(s string, width float64, f font) string {
	if textWidth(s, f) <= width {
		return s
	}
	runes := []rune(s)
	for n := len(runes) - 1; n > 0; n-- {
		if t := strings.TrimSpace(string(runes[:n])) + "…"; textWidth(t, f) <= width {
			return t
		}
	}
	return "…"
}

// box is a rectangle with y growing downwards.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) holds(p xy) bool {
	return p.x >= b.x0-0.01 && p.x <= b.x1+0.01 && p.y >= b.y0-0.01 && p.y <= b.y1+0.01
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
