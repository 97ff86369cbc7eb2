package sketch

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// Timeline is what ran when, a row per device and per kind of other work.
type Timeline struct {
	Title string
	Notes []string
	Rows  []Row
}

// Row is what one device did.
type Row struct {
	Name  string
	Spans []Span
}

// Span is a stretch of time.
type Span struct {
	Kind       Kind
	Name, Tip  string
	Start, End time.Duration
}

// levels puts spans of a row that overlap above each other, and returns the level of
// each span and the number of levels, at most most.
func (r *Row) levels(most int) (level []int, n int) {
	level = make([]int, len(r.Spans))
	order := make([]int, len(r.Spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Spans[a].Start, r.Spans[b].Start) })
	var ends []time.Duration
	for _, i := range order {
		s := &r.Spans[i]
		at := 0
		for at < len(ends) && ends[at] > s.Start && at < most-1 {
			at++
		}
		if at == len(ends) {
			ends = append(ends, 0)
		}
		ends[at] = max(ends[at], s.End)
		level[i] = at
	}
	return level, max(len(ends), 1)
}

// WriteSVG writes the timeline. Spans that are too short to be seen one by one are
// drawn as one.
func (t *Timeline) WriteSVG(w io.Writer) error {
	const tall, most = 22., 6
	p := &page{width: 960}
	left, right := 70., p.width-margin
	for _, r := range t.Rows {
		left = max(left, min(margin+wide(r.Name, 12)+10, 200))
	}
	y := p.head(t.Title, t.Notes)
	seen := map[Kind]bool{}
	from, to := time.Duration(math.MaxInt64), time.Duration(0)
	for _, r := range t.Rows {
		for _, s := range r.Spans {
			seen[s.Kind] = true
			from, to = min(from, s.Start), max(to, s.End)
		}
	}
	if from > to {
		from, to = 0, 0
	}
	y += p.legend(margin, y+4, p.width-2*margin, seen) + 6
	X := func(d time.Duration) float64 {
		return left + (right-left)*(d-from).Seconds()/max((to-from).Seconds(), 1e-12)
	}
	top := y
	foot := top
	for i := range t.Rows {
		_, n := t.Rows[i].levels(most)
		foot += float64(n)*tall + 12
	}
	step := niceTime((to - from) / 7)
	for d := time.Duration(0); step > 0 && d <= to-from; d += step {
		x := X(from + d)
		p.line(x, top, x, foot, "grid", `stroke-width="1"`)
		anchor := "middle"
		if x > right-24 {
			anchor = "end"
		}
		p.text(x, foot+16, "muted small", anchor, timeLabel(d))
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		level, n := r.levels(most)
		p.text(margin, y+tall/2+6, "ink", "", fit(r.Name, 12, left-margin-8))
		drawn := make([]float64, n) // where the last one ends
		for k := range drawn {
			drawn[k] = math.Inf(-1)
		}
		for k := range r.Spans {
			s := &r.Spans[k]
			x, end := X(s.Start), X(s.End)
			if end-drawn[level[k]] < 0.4 { // nobody could see it
				continue
			}
			x = max(x, drawn[level[k]])
			wd := max(end-x-0.5, 0.4)
			drawn[level[k]] = max(end, x+0.4)
			at := y + float64(level[k])*tall + 3
			p.rect(x, at, wd, tall-4, min(2, wd/4), fmt.Sprintf("k%d", s.Kind), s.Tip)
			if wide(s.Name, 11) <= wd-6 {
				p.text(x+wd/2, at+13, "on small", "middle", s.Name)
			}
		}
		y += float64(n)*tall + 12
		p.line(margin, y-6, right, y-6, "grid", `stroke-width="1"`)
	}
	p.height = foot + 34
	return p.writeTo(w, fmt.Sprintf("%s: what ran when, of %s", t.Title, to-from))
}

// niceTime returns 1, 2 or 5 times a power of ten that is at least d.
func niceTime(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	power := time.Duration(1)
	for power*10 <= d {
		power *= 10
	}
	for _, m := range []time.Duration{1, 2, 5} {
		if m*power >= d {
			return m * power
		}
	}
	return 10 * power
}

// timeLabel writes a time in the unit that suits it.
func timeLabel(d time.Duration) string {
	f := func(v float64, unit string) string {
		return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) + " " + unit
	}
	switch {
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return f(float64(d), "ns")
	case d < time.Millisecond:
		return f(float64(d)/1e3, "µs")
	case d < time.Second:
		return f(float64(d)/1e6, "ms")
	}
	return f(d.Seconds(), "s")
}
