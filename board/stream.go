package board

import (
	"encoding/json"
	"slices"
	"strconv"
)

// stream remembers what one page has been sent, and so knows what it lacks.
type stream struct {
	board   *Board
	version uint64 // of the board, when last looked at
	begun   bool
	sent    []sentCurve // by index of series
	title   string      // the last message about it
	layout  []byte      // the last message about panels
	state   []byte      // the last message about progress
	line    *timeline   // the last one that was sent
}

// sentCurve says how far a page knows a curve.
type sentCurve struct {
	count   int64
	stride  int
	buckets int
}

// wirePanel is a panel as web/board.js reads it.
type wirePanel struct {
	Name   string     `json:"name"`
	Title  string     `json:"title"`
	XLabel string     `json:"xlabel"`
	YLabel string     `json:"ylabel"`
	XLim   [2]float64 `json:"xlim"`
	YLim   [2]float64 `json:"ylim"`
	XLog   bool       `json:"xlog"`
	YLog   bool       `json:"ylog"`
	YZero  bool       `json:"yzero,omitempty"`
	Series []wireName `json:"series"`
}

type wireName struct {
	ID    int    `json:"id"`
	Label string `json:"label"`
	Color int    `json:"color"`
}

// next returns the messages that bring the page up to date; none if it is.
//
//	event: title     what stands above all panels, when it is new
//	event: panels    all panels with their axes and the names in them, when any of that is new
//	event: points    for series that have news: {id, from, buckets, last, count}. The buckets take the place of those from
//	                 index "from" on; each is one or two points in a flat list. They are those of curve.
//	event: timeline  what SetTimeline has set, {} for none, when it is new
//	event: progress  the state of the tracked Progress
func (s *stream) next() []byte {
	var out []byte
	b := s.board
	b.mu.Lock()
	progress := b.progress
	version := b.version.Load()
	if !s.begun || version != s.version {
		layout, title := b.wirePanels(), b.title()
		news, line := s.news(), b.timeline
		s.version, s.begun = version, true
		b.mu.Unlock()

		text, err := json.Marshal(layout)
		if err != nil {
			panic(err) // limits are finite: SetAxes has checked
		}
		if !slices.Equal(text, s.layout) {
			s.layout = text
			out = appendEvent(out, "panels", text)
		}
		if title != s.title {
			s.title = title
			out = appendEvent(out, "title", appendJSONString(nil, title))
		}
		if line != s.line {
			s.line = line
			text := []byte("{}")
			if line != nil {
				text = line.wire
			}
			out = appendEvent(out, "timeline", text)
		}
		if len(news) > 0 {
			out = appendEvent(out, "points", encodeNews(news))
		}
	} else {
		b.mu.Unlock()
	}
	if progress != nil {
		if text := progress.wire(); !slices.Equal(text, s.state) {
			s.state = text
			out = appendEvent(out, "progress", text)
		}
	}
	return out
}

// appendEvent writes a message. JSON has no line breaks, so one data line holds it.
func appendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: "...), data...)
	return append(dst, "\n\n"...)
}

// wirePanels describes the panels. The caller holds b.mu.
func (b *Board) wirePanels() []wirePanel {
	var panels []wirePanel
	for _, g := range b.groups() {
		a := b.panelAxes(g.panel)
		p := wirePanel{
			Name: g.panel, Title: a.Title, XLabel: a.XLabel, YLabel: a.YLabel, XLim: a.XLim, YLim: a.YLim,
			XLog: a.XScale == Log, YLog: a.YScale == Log, YZero: a.YFromZero, Series: []wireName{},
		}
		for _, id := range g.series {
			s := b.series[id]
			p.Series = append(p.Series, wireName{id, s.label, s.color})
		}
		panels = append(panels, p)
	}
	return panels
}

// curveNews is what a page lacks of a curve.
type curveNews struct {
	id, from int
	count    int64
	last     xy
	buckets  []bucket
}

// news copies what the page lacks; the copy is put into words when the board is free again. The caller holds Board.mu.
func (s *stream) news() []curveNews {
	var all []curveNews
	for id, series := range s.board.series {
		if id == len(s.sent) {
			s.sent = append(s.sent, sentCurve{})
		}
		sent, c := &s.sent[id], &series.curve
		if series.count == sent.count {
			continue
		}
		from := max(0, sent.buckets-1) // the last one may have been filling
		if c.stride != sent.stride {
			from = 0
		}
		*sent = sentCurve{series.count, c.stride, len(c.buckets)}
		all = append(all, curveNews{id, from, series.count, c.last, slices.Clone(c.buckets[from:])})
	}
	return all
}

func encodeNews(all []curveNews) []byte {
	var out []byte
	for i, n := range all {
		out = append(out, "[,"[min(i, 1)])
		out = append(out, `{"id":`...)
		out = strconv.AppendInt(out, int64(n.id), 10)
		out = append(out, `,"from":`...)
		out = strconv.AppendInt(out, int64(n.from), 10)
		out = append(out, `,"count":`...)
		out = strconv.AppendInt(out, n.count, 10)
		out = append(out, `,"last":`...)
		out = appendPoints(out, n.last)
		out = append(out, `,"buckets":[`...)
		for i, bucket := range n.buckets {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendPoints(out, bucket.points(make([]xy, 0, 2))...)
		}
		out = append(out, "]}"...)
	}
	return append(out, ']')
}

// appendPoints writes points as one flat list, to the precision of a screen.
func appendPoints(dst []byte, points ...xy) []byte {
	for i, p := range points {
		dst = append(dst, "[,"[min(i, 1)])
		dst = appendJSONNumber(dst, p.x, 10)
		dst = append(dst, ',')
		dst = appendJSONNumber(dst, p.y, 7)
	}
	return append(dst, ']')
}

// wire is the state as web/board.js reads it.
func (p *Progress) wire() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state()
	text := []string{}
	for _, part := range s.parts() {
		if part.rank < rankMetric || part.rank >= rankEpoch && part.rank < rankMore { // metrics are in the legends
			text = append(text, part.text)
		}
	}
	out, err := json.Marshal(struct {
		Fraction float64  `json:"fraction"`
		Done     bool     `json:"done"`
		Text     []string `json:"text"`
	}{s.fraction, s.done, text})
	if err != nil {
		panic(err) // the fraction is finite
	}
	return out
}
