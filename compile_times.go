package locus

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/program"
)

// Times returns how long the steps of c's programs took in a profile of calls of c: a
// table for each program that ran, with the steps in their order, the mean time of each,
// its share of all, and the lines that it comes from. Below each stands the time of its
// calls as a whole, if t comes from [ProfileCalls].
func (c *Compiled) Times(t *Timeline) string {
	c.made("Compiled.Times")
	gate.Check("Compiled.Times", gate.Given("the timeline", t))
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for i, p := range c.plans {
		if p.body == nil {
			continue
		}
		write := func(body *program.Program, where string) {
			if times := timesOf(body, t); times.calls > 0 {
				fmt.Fprintf(&b, "signature %d (%s)%s: %d calls\n", i, p.someArgs(), where, times.calls)
				times.table(&b, body)
			}
		}
		if p.relay == nil {
			write(p.body, "")
			continue
		}
		for k, part := range p.relay.parts() {
			write(part.body, fmt.Sprintf(", part %d on %s", k, part.place.device))
		}
	}
	if b.Len() == 0 {
		return "no step of the function ran in the profile\n"
	}
	return b.String()
}

// stepTimes is how long the steps of a program took, all calls together.
type stepTimes struct {
	calls int
	steps []time.Duration
	sum   time.Duration
	whole time.Duration // of the calls as pieces
}

// timesOf looks a program's steps up in a timeline.
func timesOf(body *program.Program, t *Timeline) stepTimes {
	at := make(map[*program.Step]int, len(body.Steps))
	for i := range body.Steps {
		at[&body.Steps[i]] = i
	}
	r := stepTimes{steps: make([]time.Duration, len(body.Steps))}
	count := make([]int, len(body.Steps))
	whole := 0
	for i := range t.Spans {
		switch s := t.Spans[i].step.(type) {
		case *program.Program:
			if s == body && t.Spans[i].Name == pieceName {
				r.whole += t.Spans[i].Time()
				whole++
			}
		case *program.Step:
			if k, ok := at[s]; ok {
				r.steps[k] += t.Spans[i].Time()
				r.sum += t.Spans[i].Time()
				count[k]++
			}
		}
	}
	r.calls = whole
	if len(count) > 0 {
		r.calls = max(r.calls, slices.Max(count))
	}
	return r
}

// each returns the mean of a time by calls.
func (r *stepTimes) each(d time.Duration) string {
	return (d / time.Duration(max(r.calls, 1))).Round(100 * time.Nanosecond).String()
}

// share returns a step's part of all.
func (r *stepTimes) share(i int) float64 { return r.steps[i].Seconds() / max(r.sum.Seconds(), 1e-12) }

// table writes a line per step.
func (r *stepTimes) table(b *strings.Builder, p *program.Program) {
	if r.sum > 0 {
		wide := 8
		for i := range p.Steps {
			wide = max(wide, utf8.RuneCountInString(p.Steps[i].Name()))
		}
		fmt.Fprintf(b, "%6s  %-*s %12s %8s  %s\n", "step", wide, "op", "time", "share", "from")
		for i := range p.Steps {
			s := &p.Steps[i]
			fmt.Fprintf(b, "%6d  %-*s %12s %7.1f%%  %s\n", i, wide, s.Name(), r.each(r.steps[i]), 100*r.share(i), strings.Join(s.Sites(), ", "))
		}
		fmt.Fprintf(b, "%6s  %-*s %12s\n", "", wide, "all", r.each(r.sum))
	}
	if r.whole > 0 {
		fmt.Fprintf(b, "as one piece: %s per call\n", r.each(r.whole))
	}
}

// someArgs describes the arguments of a plan, many in short.
func (p *plan) someArgs() string {
	const enough = 4
	if n := len(p.args); n > enough {
		return fmt.Sprintf("%s and %d more", strings.Join(p.args[:enough-1], ", "), n-enough+1)
	}
	return strings.Join(p.args, ", ")
}
