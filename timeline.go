package locus

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

// Span is a stretch of time in which a device ran an op, a copy or a collective, or the
// program copied or waited.
type Span struct {
	Device Device // that ran the op; for copies and waits the GPU
	Name   string // the op, those of a fused step ("add+exp"), or the kind of transfer
	Detail string // shapes and types of what went in
	Site   string // file:line of the program
	Bytes  int64  // of transfers
	Host   bool   // the program's time in a copy, a wait or a collective; not a device's
	Beside bool   // the device's time in a copy or a collective that runs beside its ops, on a stream of its own

	Start, End time.Duration // since the profile began

	step any         // of a compiled function: *program.Step, or *program.Program
	sort sketch.Kind // of the op
}

// Time is how long the span took.
func (s Span) Time() time.Duration { return s.End - s.Start }

// Timeline is what devices did, and when: see [Profile]. Spans are in order of their
// start.
type Timeline struct {
	Spans []Span
	Total time.Duration // from the beginning to the end of the profile
}

// pieceName is what a call of a compiled function is called where it is one span.
const pieceName = "compiled"

// Busy returns how long a device ran ops.
func (t *Timeline) Busy(d Device) time.Duration {
	t.given("Timeline.Busy")
	var sum time.Duration
	for _, b := range t.busy(d) {
		sum += b.end - b.start
	}
	return sum
}

// Overlap returns how long two devices ran ops at the same time.
func (t *Timeline) Overlap(a, b Device) time.Duration {
	t.given("Timeline.Overlap")
	var sum time.Duration
	second := t.busy(b)
	for _, x := range t.busy(a) {
		for _, y := range second {
			sum += max(0, min(x.end, y.end)-max(x.start, y.start))
		}
	}
	return sum
}

type interval struct{ start, end time.Duration }

// busy returns when a device ran ops, in order and apart.
func (t *Timeline) busy(d Device) (all []interval) {
	var end time.Duration
	for _, s := range t.Spans {
		if s.Host || s.Beside || s.Device != d || s.End <= end {
			continue
		}
		all = append(all, interval{max(s.Start, end), s.End})
		end = s.End
	}
	return all
}

func (t *Timeline) given(name string) {
	gate.Check(name, gate.Made(t != nil, "make one with locus.Profile"))
}

// String returns a table of the ops by the time that they took, and of copies and
// waits.
func (t *Timeline) String() string {
	t.given("Timeline.String")
	type row struct {
		device Device
		name   string
		host   bool
		beside bool
		count  int
		bytes  int64
		time   time.Duration
	}
	type key struct {
		device Device
		name   string
		host   bool
		beside bool
	}
	found := map[key]*row{}
	var rows []*row
	var devices []Device
	for _, s := range t.Spans {
		k := key{s.Device, s.Name, s.Host, s.Beside}
		r := found[k]
		if r == nil {
			r = &row{device: s.Device, name: s.Name, host: s.Host, beside: s.Beside}
			found[k] = r
			rows = append(rows, r)
		}
		r.count++
		r.bytes += s.Bytes
		r.time += s.Time()
		if !slices.Contains(devices, s.Device) {
			devices = append(devices, s.Device)
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int {
		switch {
		case a.host != b.host && a.host:
			return 1
		case a.host != b.host:
			return -1
		}
		return int(b.time - a.time)
	})
	var b strings.Builder
	short := func(d time.Duration) string { return d.Round(100 * time.Nanosecond).String() }
	fmt.Fprintf(&b, "%s in all", short(t.Total))
	for _, d := range devices {
		if busy := t.Busy(d); busy > 0 {
			fmt.Fprintf(&b, "; %s was busy for %s (%.0f %%)", d, short(busy), 100*busy.Seconds()/max(t.Total.Seconds(), 1e-9))
		}
	}
	fmt.Fprintf(&b, "\n%-8s %-24s %7s %12s %12s %7s\n", "device", "op", "calls", "time", "each", "share")
	for _, r := range rows {
		name, share := r.name, ""
		if r.host {
			name = "program: " + r.name
		} else if r.beside {
			name = "beside: " + r.name
		} else if busy := t.Busy(r.device); busy > 0 {
			share = fmt.Sprintf("%.1f %%", 100*r.time.Seconds()/busy.Seconds())
		}
		fmt.Fprintf(&b, "%-8s %-24s %7d %12s %12s %7s\n", r.device, name, r.count, short(r.time), short(r.time/time.Duration(r.count)), share)
	}
	return b.String()
}

// WriteTrace writes the timeline as a trace that ui.perfetto.dev and chrome://tracing
// show: a row per device, and one for the program's copies and waits.
func (t *Timeline) WriteTrace(w io.Writer) error {
	t.given("Timeline.WriteTrace")
	gate.Check("Timeline.WriteTrace", gate.Given("the writer", w))
	type event struct {
		Name  string         `json:"name"`
		Phase string         `json:"ph"`
		Start float64        `json:"ts"` // microseconds
		Time  float64        `json:"dur,omitempty"`
		PID   int            `json:"pid"`
		TID   int            `json:"tid"`
		Args  map[string]any `json:"args,omitempty"`
	}
	events := []event{}
	rows := map[string]int{}
	for _, s := range t.Spans {
		name := s.Row()
		id, ok := rows[name]
		if !ok {
			id = len(rows) + 1
			rows[name] = id
			events = append(events, event{Name: "thread_name", Phase: "M", PID: 1, TID: id, Args: map[string]any{"name": name}})
		}
		args := map[string]any{"where": s.Site}
		if s.Detail != "" {
			args["operands"] = s.Detail
		}
		if s.Host || s.Beside {
			args["bytes"] = s.Bytes
		}
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
		events = append(events, event{Name: s.Name, Phase: "X", Start: us(s.Start), Time: us(s.Time()), PID: 1, TID: id, Args: args})
	}
	return json.NewEncoder(w).Encode(map[string]any{"displayTimeUnit": "ms", "traceEvents": events})
}

// WriteSVG writes the timeline as an SVG document: a row per device, and one for the
// program's copies and waits.
func (t *Timeline) WriteSVG(w io.Writer) error {
	t.given("Timeline.WriteSVG")
	gate.Check("Timeline.WriteSVG", gate.Given("the writer", w))
	p := &sketch.Timeline{Title: "Timeline", Notes: []string{strings.SplitN(t.String(), "\n", 2)[0]}}
	rows := map[string]int{}
	for i := range t.Spans {
		s := &t.Spans[i]
		name := s.Row()
		k, ok := rows[name]
		if !ok {
			k = len(p.Rows)
			rows[name] = k
			p.Rows = append(p.Rows, sketch.Row{Name: name})
		}
		p.Rows[k].Spans = append(p.Rows[k].Spans, sketch.Span{Kind: s.kind(), Name: s.Name, Start: s.Start, End: s.End,
			Tip: strings.TrimSpace(fmt.Sprintf("%s, %s\n%s\n%s", s.Name, s.Time(), s.Detail, s.Site))})
	}
	slices.SortStableFunc(p.Rows, func(a, b sketch.Row) int { return strings.Compare(a.Name, b.Name) })
	return p.WriteSVG(w)
}

// Row names the row of a picture that the span belongs to: its device, what runs beside the
// ops there, or the program's copies and waits with it.
func (s Span) Row() string {
	switch {
	case s.Host:
		return "program, " + s.Device.String()
	case s.Beside:
		return s.Device.String() + ", beside"
	}
	return s.Device.String()
}

// Kind says what the span is, by which pictures color it: "product", "elementwise",
// "reduction, norm", "update", "other", or "program" for copies, waits and collectives.
func (s Span) Kind() string { return s.kind().String() }

func (s *Span) kind() sketch.Kind {
	if s.Host || s.Beside {
		return sketch.Host
	}
	return s.sort
}
