package board

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/locusml/locus/internal/gate"
)

const (
	paintEvery = 100 * time.Millisecond
	rateMemory = 8 * time.Second // the rate is that of about the last 8 seconds
)

// A Plan says what a [Progress] counts. Zero fields are unknown or take their default.
type Plan struct {
	Title  string        // what is being done, if not evident
	Epochs int           // number of passes over Steps; 0 for work without epochs
	Steps  int64         // steps of an epoch
	Unit   string        // what a step is; "step" by default, and with "B" sizes and rates read as kB, MB, GB
	Every  time.Duration // between lines when the output is not a terminal; 10 s by default, below 0 for none but the last
}

// A Progress reports on work as it goes on: in a terminal as one line that is kept up to date, elsewhere (a file, a pipe)
// as a plain line from time to time. Its methods may be called from several goroutines at once; [Progress.Add] is cheap
// enough for the innermost loop.
type Progress struct {
	steps atomic.Int64 // done in this epoch
	total atomic.Int64 // done in all

	plan  Plan
	out   io.Writer
	look  look
	width func() int // columns, for a terminal; else nil
	begin time.Time
	stop  chan struct{}
	ended chan struct{} // closed when the painter is gone

	mu      sync.Mutex
	epoch   int
	metrics []metric
	rate    rate
	shown   int // columns of the line on the terminal
	printed time.Time
	closed  bool
	took    time.Duration // when closed
}

type metric struct {
	name  string
	value float64
}

// look is what the terminal can show.
type look struct{ color, unicode bool }

// NewProgress starts reporting on w, usually os.Stderr. A nil w reports nowhere but on the page of a [Board] that tracks
// the Progress. Close must be called at the end.
//
// Color is left out if the environment variable NO_COLOR is set.
func NewProgress(w io.Writer, plan Plan) *Progress {
	var width func() int
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		width = func() int {
			columns, _, err := term.GetSize(int(f.Fd()))
			if err != nil || columns <= 0 {
				return 80
			}
			return columns
		}
	}
	return newProgress(w, plan, width, lookOf(runtime.GOOS, os.Getenv))
}

func lookOf(goos string, env func(string) string) look {
	if goos == "windows" { // only the newer terminal is sure to know escapes
		return look{color: env("NO_COLOR") == "" && env("WT_SESSION") != "", unicode: true}
	}
	locale := env("LC_ALL")
	for _, name := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = env(name)
		}
	}
	locale = strings.ToLower(strings.ReplaceAll(locale, "-", ""))
	return look{color: env("NO_COLOR") == "", unicode: strings.Contains(locale, "utf8") || goos == "darwin"}
}

func newProgress(w io.Writer, plan Plan, width func() int, look look) *Progress {
	if plan.Unit == "" {
		plan.Unit = "step"
	}
	if plan.Every == 0 {
		plan.Every = 10 * time.Second
	}
	plan.Title, plan.Unit = cleanName(plan.Title), cleanName(plan.Unit)
	if w == nil {
		w, width = io.Discard, nil
	}
	now := time.Now()
	p := &Progress{
		plan: plan, out: w, look: look, width: width, begin: now, printed: now,
		rate: rate{at: now}, stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go p.run()
	return p
}

// Add counts n steps as done.
func (p *Progress) Add(n int64) {
	gate.Receiver("board.Progress.Add", p != nil && p.out != nil, "make it with board.NewProgress")
	p.steps.Add(n)
	p.total.Add(n)
}

// Epoch begins an epoch. The first is 1.
func (p *Progress) Epoch(epoch int) {
	gate.Receiver("board.Progress.Epoch", p != nil && p.out != nil, "make it with board.NewProgress")
	p.mu.Lock()
	p.epoch = epoch
	p.steps.Store(0)
	p.mu.Unlock()
}

// Set shows the latest value of a metric. Metrics keep the order in which they were first set; the first ones are the last
// to go where there is little room.
func (p *Progress) Set(name string, value float64) {
	gate.Receiver("board.Progress.Set", p != nil && p.out != nil, "make it with board.NewProgress")
	name = cleanName(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.metrics {
		if p.metrics[i].name == name {
			p.metrics[i].value = value
			return
		}
	}
	p.metrics = append(p.metrics, metric{name, value})
}

// Printf writes a line of text above the progress line.
func (p *Progress) Printf(format string, args ...any) {
	gate.Receiver("board.Progress.Printf", p != nil && p.out != nil, "make it with board.NewProgress")
	text := strings.TrimSuffix(fmt.Sprintf(format, args...), "\n")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == nil || p.closed {
		fmt.Fprintln(p.out, text)
		return
	}
	fmt.Fprintf(p.out, "\r%s\r%s\n", strings.Repeat(" ", p.shown), text)
	p.shown = 0
	p.paint("")
}

// Close writes the last state and ends the report.
func (p *Progress) Close() {
	gate.Receiver("board.Progress.Close", p != nil && p.out != nil, "make it with board.NewProgress")
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	now := time.Now()
	p.rate.update(now, p.total.Load())
	p.closed, p.took = true, now.Sub(p.begin)
	if p.width != nil {
		p.paint("\n")
	} else {
		fmt.Fprintln(p.out, p.line(0))
	}
	p.mu.Unlock()
	close(p.stop)
	<-p.ended
}

// run paints from time to time until Close.
func (p *Progress) run() {
	defer close(p.ended)
	tick := time.NewTicker(paintEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			p.mu.Lock()
			p.rate.update(now, p.total.Load())
			switch {
			case p.closed:
			case p.width != nil:
				p.paint("")
			case p.plan.Every > 0 && now.Sub(p.printed) >= p.plan.Every:
				p.printed = now
				fmt.Fprintln(p.out, p.line(0))
			}
			p.mu.Unlock()
		}
	}
}

// paint writes the line over the one that is there. It blanks what is left of that with spaces, which every terminal
// understands, and leaves the last column free, because some terminals wrap when it is filled. The caller holds p.mu.
func (p *Progress) paint(end string) {
	width := p.width() - 1
	line := p.line(width)
	n := columns(stripColor(line))
	pad := max(0, min(p.shown, width)-n)
	io.WriteString(p.out, "\r"+line+strings.Repeat(" ", pad)+end)
	p.shown = n
}

// state is what there is to show at one moment.
type state struct {
	plan     Plan
	epoch    int
	step     int64
	fraction float64 // of all the work; below 0 if unknown
	rate     float64 // steps per second; 0 if unknown
	elapsed  time.Duration
	left     time.Duration // below 0 if unknown
	metrics  []metric
	done     bool
}

// state returns the present state. The caller holds p.mu.
func (p *Progress) state() state {
	s := state{plan: p.plan, epoch: p.epoch, step: p.steps.Load(), fraction: -1, rate: p.rate.value(), left: -1, metrics: p.metrics, done: p.closed}
	s.elapsed = p.took
	if !p.closed {
		s.elapsed = time.Since(p.begin)
	}
	if p.closed && s.elapsed > 0 {
		s.rate = float64(p.total.Load()) / s.elapsed.Seconds() // the whole, now that it is known
	}
	if p.plan.Steps > 0 {
		all := float64(p.plan.Steps) * float64(max(1, p.plan.Epochs))
		done := float64(p.plan.Steps)*float64(max(0, p.epoch-1)) + float64(min(s.step, p.plan.Steps))
		s.fraction = min(1, max(0, done/all))
		if seconds := (all - done) / s.rate; s.rate > 0 && seconds < 1e9 {
			s.left = time.Duration(max(0, seconds) * 1e9)
		}
	}
	return s
}

// rate is a mean of steps per second in which older seconds count less and less. It changes only when steps were done,
// so that slow steps do not read as none.
type rate struct {
	at          time.Time
	count       int64
	sum, weight float64
}

func (r *rate) update(now time.Time, count int64) {
	dt := now.Sub(r.at).Seconds()
	if count == r.count || dt <= 0 {
		return
	}
	alpha := 1 - math.Exp(-dt/rateMemory.Seconds())
	r.sum += alpha * (float64(count-r.count)/dt - r.sum)
	r.weight += alpha * (1 - r.weight)
	r.at, r.count = now, count
}

func (r *rate) value() float64 {
	if r.weight == 0 {
		return 0
	}
	return r.sum / r.weight
}
