package board

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/sketch"
)

// A Span is a stretch of time in which something ran: an op on a device, a copy, a wait.
type Span struct {
	Row        string // what ran it: "gpu:0"
	Kind       string // decides the color: "product", "elementwise", "reduction, norm", "update", "program"; anything else is gray
	Name       string // what ran
	Detail     string // lines that are shown when the pointer is on it
	Start, End time.Duration
}

// maxSpans is how many spans a page shows. More would not be told apart.
const maxSpans = 5000

// timeline is what a board shows of SetTimeline.
type timeline struct {
	title string
	rows  []string
	spans []Span // in order of their start
	left  int    // spans that are not shown
	wire  []byte // for pages
}

// SetTimeline shows spans as a timeline below the curves of the page, a row for each Row, such as the ops of a profiled
// training step. It replaces the previous one; without spans there is none. Only the first 5000 are shown.
func (b *Board) SetTimeline(title string, spans []Span) {
	gate.Receiver("board.Board.SetTimeline", b != nil, "use new(board.Board)")
	var t *timeline
	if len(spans) > 0 {
		t = newTimeline(title, spans)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timeline = t
	b.version.Add(1)
}

func newTimeline(title string, spans []Span) *timeline {
	t := &timeline{title: cleanName(title), spans: slices.Clone(spans)}
	slices.SortStableFunc(t.spans, func(a, b Span) int { return int(max(min(a.Start-b.Start, 1), -1)) })
	if n := len(t.spans); n > maxSpans {
		t.spans, t.left = t.spans[:maxSpans], n-maxSpans
	}
	begin := t.spans[0].Start
	for i := range t.spans {
		s := &t.spans[i]
		s.Row, s.Name = cleanName(s.Row), cleanName(s.Name)
		s.Start -= begin
		s.End = max(s.End-begin, s.Start)
		if !slices.Contains(t.rows, s.Row) {
			t.rows = append(t.rows, s.Row)
		}
	}
	slices.Sort(t.rows)
	t.wire = t.encode()
	return t
}

// encode writes the timeline as web/timeline.js reads it: texts once each, and for every span row, kind, start and
// duration in microseconds, name and detail.
func (t *timeline) encode() []byte {
	var texts []string
	known := map[string]int{}
	text := func(s string) int {
		i, ok := known[s]
		if !ok {
			i = len(texts)
			known[s] = i
			texts = append(texts, s)
		}
		return i
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	list := make([][6]float64, len(t.spans))
	for i, s := range t.spans {
		list[i] = [6]float64{float64(slices.Index(t.rows, s.Row)), float64(kindOf(s.Kind)), us(s.Start), us(s.End - s.Start), float64(text(s.Name)), float64(text(s.Detail))}
	}
	kinds := make([]string, 0, 8)
	for k := sketch.Kind(0); k <= sketch.Host; k++ {
		kinds = append(kinds, k.String())
	}
	out, err := json.Marshal(map[string]any{"title": t.title, "rows": t.rows, "kinds": kinds, "texts": texts, "spans": list, "left": t.left})
	if err != nil {
		panic(err) // durations are finite
	}
	return out
}

// kindOf finds a kind by its name.
func kindOf(name string) sketch.Kind {
	for k := sketch.Kind(0); k <= sketch.Host; k++ {
		if k.String() == name {
			return k
		}
	}
	return sketch.Other
}

// WriteTimelineSVG writes the timeline of [Board.SetTimeline] as an SVG document. Without one it is an error.
func (b *Board) WriteTimelineSVG(w io.Writer) error {
	gate.Receiver("board.Board.WriteTimelineSVG", b != nil, "use new(board.Board)")
	if err := gate.Given("the writer", w); err != nil {
		return fmt.Errorf("board: %w", err)
	}
	b.mu.Lock()
	t := b.timeline
	b.mu.Unlock()
	if t == nil {
		return fmt.Errorf("board: there is no timeline: show one with SetTimeline")
	}
	p := sketch.Timeline{Title: t.title}
	if t.left > 0 {
		p.Notes = []string{fmt.Sprintf("%d more spans are not shown", t.left)}
	}
	for _, name := range t.rows {
		r := sketch.Row{Name: name}
		for _, s := range t.spans {
			if s.Row == name {
				r.Spans = append(r.Spans, sketch.Span{Kind: kindOf(s.Kind), Name: s.Name, Tip: strings.TrimSpace(s.Name + ", " + (s.End - s.Start).String() + "\n" + s.Detail), Start: s.Start, End: s.End})
			}
		}
		p.Rows = append(p.Rows, r)
	}
	return p.WriteSVG(w)
}
