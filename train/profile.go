package train

import (
	"fmt"
	"io"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
)

// Profiled is the profile of some steps of a run: see [Profile].
type Profiled struct {
	Timeline *locus.Timeline
	First    int    // the number of the first batch, from 0
	Steps    int    // how many batches
	Times    string // tables of what the steps of compiled programs took; see locus.Compiled.Times
}

// Profile takes a profile of some steps of Fit, and passes it to f; an error of f ends
// the run. It begins after the given number of batches, or in the middle of a shorter
// run: the first ones trace, compile and load. With [Board] the page shows the profile as
// a timeline. Profiled steps take longer; their results are the same.
func Profile(after, steps int, f func(Profiled) error) Option {
	return Option{func(s *settings) { s.profile = &profileSettings{after, steps, f} }}
}

type profileSettings struct {
	after, steps int
	f            func(Profiled) error
}

func (p *profileSettings) check() error {
	switch {
	case p == nil:
		return nil
	case p.after < 0 || p.steps < 1:
		return bad("Profile(%d, %d); want at least one step, after 0 or more", p.after, p.steps)
	case p.f == nil:
		return bad("Profile without a function for what it sees")
	}
	return nil
}

// profiler is a profile on its way. It runs on a goroutine of its own, for it sees the
// ops of all.
type profiler struct {
	set  *profileSettings
	seen int // batches so far
	at   int // the first one
	stop chan struct{}
	done chan profiled
}

type profiled struct {
	line *locus.Timeline
	err  error
}

// beginProfile is called before each batch.
func (r *run) beginProfile() error {
	p := &r.profiler
	if p.set == nil {
		p.set = r.set.profile
	}
	if p.set == nil || p.stop != nil {
		return nil
	}
	if p.seen == 0 {
		p.at = p.set.after
		if left := r.train.Len() * (r.set.maxEpochs - r.epoch.Number); p.at >= left {
			p.at = left / 2
		}
	}
	if p.seen != p.at {
		return nil
	}
	p.stop, p.done = make(chan struct{}), make(chan profiled, 1)
	began := make(chan struct{})
	go func() {
		var line *locus.Timeline
		err := locus.Try(func() {
			line = locus.Profile(func() {
				close(began)
				<-p.stop
			})
		})
		p.done <- profiled{line, err}
	}()
	select {
	case <-began:
		return nil
	case d := <-p.done:
		p.done = nil
		return d.err
	}
}

// endProfile is called behind each batch, and with last at the end of the run.
func (r *run) endProfile(last bool) error {
	p := &r.profiler
	if !last {
		p.seen++
	}
	if p.done == nil || !last && p.seen < p.at+p.set.steps {
		return nil
	}
	close(p.stop)
	d := <-p.done
	p.done = nil
	if d.err != nil {
		return d.err
	}
	got := Profiled{Timeline: d.line, First: p.at, Steps: p.seen - p.at}
	var b strings.Builder
	for _, x := range r.stages() {
		if x.c == nil || x.c.c == nil || x.c.calls < 2 {
			continue
		}
		if times := x.c.c.Times(d.line); strings.HasPrefix(times, "signature") {
			fmt.Fprintf(&b, "%s, %s", x.name, times)
		}
	}
	got.Times = b.String()
	if r.set.board != nil {
		r.set.board.SetTimeline(fmt.Sprintf("%d training steps, from step %d on", got.Steps, got.First), spans(d.line))
	}
	return p.set.f(got)
}

// dropProfile ends a profile that nobody waits for any more.
func (r *run) dropProfile() {
	if p := &r.profiler; p.done != nil {
		close(p.stop)
		<-p.done
		p.done = nil
	}
}

// spans returns a timeline as a board shows it.
func spans(t *locus.Timeline) []board.Span {
	l := make([]board.Span, len(t.Spans))
	for i, s := range t.Spans {
		detail := []string{}
		if s.Detail != "" {
			detail = append(detail, s.Detail)
		}
		if s.Bytes > 0 {
			detail = append(detail, fmt.Sprintf("%d bytes", s.Bytes))
		}
		if s.Site != "" {
			detail = append(detail, s.Site)
		}
		l[i] = board.Span{Row: s.Row(), Kind: s.Kind(), Name: s.Name, Detail: strings.Join(detail, "\n"), Start: s.Start, End: s.End}
	}
	return l
}

// Summary writes, when Fit ends, in a few lines what became of its compiled steps;
// [Explain] writes everything.
func Summary(w io.Writer) Option { return Option{func(s *settings) { s.summary = w }} }
