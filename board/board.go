package board

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
)

// A Board collects the points of named series and shows them: live on a web page ([Board.Serve], [Board.Handler]), as a
// picture ([Board.Save]), in logs ([Board.LogCSV], [Board.LogJSON], [Board.LogTensorBoard]) and to any function
// ([Board.Subscribe]).
//
// The zero value is an empty board, ready to use. A Board must not be copied after first use. All methods may be called
// from several goroutines at once.
type Board struct {
	mu       sync.Mutex
	byName   map[string]*series // by the name as drawn; several may lead to one series
	series   []*series          // in order of first appearance
	labels   map[string]int     // numbered in order of first appearance; a label has one color in all panels
	axes     map[string]Axes    // by panel
	subs     []*subscriber
	logs     []*logFile
	stops    []func() // end what Serve and the logs started, at Close
	progress *Progress
	timeline *timeline     // nil without
	done     chan struct{} // closed by Close; made on demand
	closed   bool

	version atomic.Uint64  // counts changes, so that pages can see whether there is news
	pages   sync.WaitGroup // connected pages that have yet to be told of the end
}

// A Point is one point of a series as the board shows it: the mean of the points that were drawn together.
type Point struct {
	Series string
	X, Y   float64
	Time   time.Time // when the last of them was drawn
}

// A Scale says how an axis maps values to distance.
type Scale uint8

// The scales. On a Log axis only positive values are shown.
const (
	Linear Scale = iota
	Log
)

// String returns the scale's name.
func (s Scale) String() string {
	return op.EnumName("Scale", int(s), "linear", "log")
}

// Axes describes the axes of one panel. The zero value is two linear axes without labels, fitted to the points.
type Axes struct {
	Title          string
	XLabel, YLabel string
	XLim, YLim     [2]float64 // lowest and highest value shown; {0, 0} fits the axis to the points
	XScale, YScale Scale
	YFromZero      bool // a linear y axis that is fitted to positive values begins at 0: for values that are read as fractions
}

func (a Axes) check() error {
	for _, axis := range []struct {
		name  string
		lim   [2]float64
		scale Scale
	}{{"X", a.XLim, a.XScale}, {"Y", a.YLim, a.YScale}} {
		lo, hi := axis.lim[0], axis.lim[1]
		switch {
		case axis.scale > Log:
			return fmt.Errorf("board: %sScale is %d: use board.Linear or board.Log", axis.name, axis.scale)
		case lo == 0 && hi == 0:
		case math.IsNaN(lo+hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) || math.IsInf(hi-lo, 0):
			return fmt.Errorf("board: %sLim is [%v, %v]: give two finite numbers, or {0, 0} to fit the axis to the points", axis.name, lo, hi)
		case lo >= hi:
			return fmt.Errorf("board: %sLim is [%v, %v]: the first must be below the second", axis.name, lo, hi)
		case axis.scale == Log && lo <= 0:
			return fmt.Errorf("board: %sLim begins at %v, which a log axis cannot show: begin above 0", axis.name, lo)
		}
	}
	return nil
}

// series is what the board keeps of one name.
type series struct {
	name         string // as shown
	panel, label string
	color        int // index of the label
	curve        curve
	count        int64 // points published

	// The group being averaged.
	sumX, sumY float64
	n          int
}

// SetAxes sets labels, limits and scales of a panel; "" is the main one, whose label of x other panels take over, and
// whose title stands above them all if it has no points itself. It returns an error, and changes nothing, if the
// limits cannot be drawn.
func (b *Board) SetAxes(panel string, a Axes) error {
	gate.Receiver("board.Board.SetAxes", b != nil, "use new(board.Board)")
	if err := a.check(); err != nil {
		return err
	}
	a.Title, a.XLabel, a.YLabel = cleanName(a.Title), cleanName(a.XLabel), cleanName(a.YLabel)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.axes == nil {
		b.axes = make(map[string]Axes)
	}
	b.axes[cleanName(panel)] = a
	b.version.Add(1)
	return nil
}

// Axes returns what [Board.SetAxes] has set for a panel, the zero value before that.
func (b *Board) Axes(panel string) Axes {
	gate.Receiver("board.Board.Axes", b != nil, "use new(board.Board)")
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.axes[cleanName(panel)]
}

// Panels returns the names of the panels that have points, in the order in which they are shown; "" is the main one.
func (b *Board) Panels() []string {
	gate.Receiver("board.Board.Panels", b != nil, "use new(board.Board)")
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{}
	for _, g := range b.groups() {
		if len(g.series) > 0 {
			names = append(names, g.panel)
		}
	}
	return names
}

// Series returns the names of the series that have points, in the order of their first appearance.
func (b *Board) Series() []string {
	gate.Receiver("board.Board.Series", b != nil, "use new(board.Board)")
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{}
	for _, s := range b.series {
		if s.count > 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// title is what stands above all panels: the main one's title, if that has no points and so is not shown. The caller
// holds b.mu.
func (b *Board) title() string {
	for _, s := range b.series {
		if s.panel == "" && s.count > 0 {
			return ""
		}
	}
	if len(b.series) == 0 {
		return "" // the main panel is shown, without points
	}
	return b.axes[""].Title
}

// Draw adds a point to a series. Each everyN points become one, their mean in x and y; with everyN below 2 every point
// is shown as it is. Points of an unfinished group appear with [Board.Flush].
//
// A y that is not finite is kept and logged, and leaves a gap in the curve. Control characters in a name are shown as
// spaces.
func (b *Board) Draw(name string, x, y float64, everyN int) {
	gate.Receiver("board.Board.Draw", b != nil, "use new(board.Board)")
	b.mu.Lock()
	s := b.byName[name]
	if s == nil {
		s = b.addSeries(name)
	}
	s.sumX += x
	s.sumY += y
	s.n++
	if s.n >= everyN {
		b.publish(s)
	}
	b.mu.Unlock()
}

// Flush shows the means of the groups that [Board.Draw] has yet to complete.
func (b *Board) Flush() {
	gate.Receiver("board.Board.Flush", b != nil, "use new(board.Board)")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.series {
		if s.n > 0 {
			b.publish(s)
		}
	}
}

// publish ends the group of s. The caller holds b.mu.
func (b *Board) publish(s *series) {
	p := xy{s.sumX, s.sumY}
	if s.n > 1 {
		p.x /= float64(s.n)
		p.y /= float64(s.n)
	}
	s.sumX, s.sumY, s.n = 0, 0, 0
	s.curve.add(p)
	s.count++
	b.version.Add(1)
	if len(b.subs) == 0 {
		return
	}
	point := Point{s.name, p.x, p.y, time.Now()}
	for _, sub := range b.subs {
		sub.push(point)
	}
}

// addSeries finds or makes the series of a name not seen before. The caller holds b.mu.
func (b *Board) addSeries(name string) *series {
	if b.byName == nil {
		b.byName, b.labels = make(map[string]*series), make(map[string]int)
	}
	clean := cleanName(name)
	s := b.byName[clean]
	if s == nil {
		s = &series{name: clean, label: clean}
		if panel, label, ok := strings.Cut(clean, "/"); ok && panel != "" && label != "" {
			s.panel, s.label = panel, label
		}
		color, known := b.labels[s.label]
		if !known {
			color = len(b.labels)
			b.labels[s.label] = color
		}
		s.color = color
		b.series = append(b.series, s)
		b.byName[clean] = s
	}
	if name != clean {
		b.byName[strings.Clone(name)] = s
	}
	return s
}

// cleanName makes a name fit for one line of text in any format.
func cleanName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, "\uFFFD"))
}

// Track shows the state of p on the web page.
func (b *Board) Track(p *Progress) {
	gate.Receiver("board.Board.Track", b != nil, "use new(board.Board)")
	b.mu.Lock()
	b.progress = p
	b.mu.Unlock()
	b.version.Add(1)
}

// Err returns what keeps the logs from being written, such as a full disk, or nil. Points wait in memory and are
// written when the cause is gone; if there are too many of them, the newest are lost and the error stays.
func (b *Board) Err() error {
	gate.Receiver("board.Board.Err", b != nil, "use new(board.Board)")
	b.mu.Lock()
	logs := b.logs
	b.mu.Unlock()
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.Err())
	}
	return errors.Join(errs...)
}

// Close shows unfinished groups, tells the web pages that the run has ended, stops serving them, and completes and closes
// the logs. It returns what went wrong with them. A closed board can still be drawn on and saved.
func (b *Board) Close() error {
	gate.Receiver("board.Board.Close", b != nil, "use new(board.Board)")
	b.Flush()
	b.mu.Lock()
	stops, logs := b.stops, b.logs
	b.stops, b.logs = nil, nil
	if !b.closed {
		b.closed = true
		close(b.doneLocked())
	}
	b.mu.Unlock()

	told, cancel := context.WithTimeout(context.Background(), time.Second)
	go func() { b.pages.Wait(); cancel() }()
	<-told.Done()
	cancel()
	for _, stop := range stops {
		stop()
	}
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// doneLocked returns the channel that Close closes. The caller holds b.mu.
func (b *Board) doneLocked() chan struct{} {
	if b.done == nil {
		b.done = make(chan struct{})
	}
	return b.done
}
