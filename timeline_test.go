package locus

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// What ran is in the timeline, in order, on its device, with its line.
func TestProfile(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		x := d.Randn(64, 64)
		line := Profile(func() {
			y := x.MatMul(x).Relu()
			y.Sum().Item()
		})
		var names []string
		var last time.Duration
		for _, s := range line.Spans {
			if s.Start < 0 || s.End < s.Start || s.Start < last || s.End > line.Total+time.Second {
				t.Errorf("%s: %s from %v to %v after %v, of %v", d, s.Name, s.Start, s.End, last, line.Total)
			}
			last = s.Start
			if s.Host {
				continue
			}
			names = append(names, s.Name)
			if s.Device != d || !strings.Contains(s.Site, "timeline_test.go:") || s.Detail == "" {
				t.Errorf("%s: span %+v", d, s)
			}
		}
		if got := strings.Join(names, " "); got != "matmul relu sum" {
			t.Errorf("%s: ran %s", d, got)
		}
		if busy := line.Busy(d); busy <= 0 || busy > line.Total {
			t.Errorf("%s: busy for %v of %v", d, busy, line.Total)
		}
		if d.IsGPU() && !strings.Contains(line.String(), "program: device to host") {
			t.Errorf("%s: the copy is missing:\n%s", d, line)
		}
		if !strings.Contains(line.String(), "matmul") {
			t.Errorf("%s", line)
		}
		var b bytes.Buffer
		if err := line.WriteTrace(&b); err != nil {
			t.Fatal(err)
		}
		var trace struct {
			TraceEvents []struct {
				Name, Ph string
				Ts, Dur  float64
			}
		}
		if err := json.Unmarshal(b.Bytes(), &trace); err != nil || len(trace.TraceEvents) <= len(line.Spans) {
			t.Errorf("%s: trace of %d events for %d spans, %v", d, len(trace.TraceEvents), len(line.Spans), err)
		}
	}
	if len(Profile(func() {}).Spans) != 0 {
		t.Error("nothing has run")
	}
}

// Goroutines, traced functions and panics do not disturb a profile, and the next one
// is its own.
func TestProfileBesideOthers(t *testing.T) {
	_, all := devicesOf()
	f := Compile(func(a ...*Tensor) []*Tensor { return []*Tensor{a[0].Exp().Sum()} })
	line := Profile(func() {
		var wg sync.WaitGroup
		for _, d := range all {
			wg.Go(func() {
				for range 5 {
					d.Ones(3).Neg()
				}
			})
		}
		wg.Wait()
		for range 3 {
			f.Call(Ones(4))
		}
	})
	count := map[string]int{}
	for _, s := range line.Spans {
		count[s.Name]++
	}
	if count["neg"] != 5*len(all) || count["exp"] != 3 {
		t.Errorf("ran %v", count)
	}
	if err := Try(func() { Profile(func() { Profile(func() {}) }) }); !errors.Is(err, ErrArgument) {
		t.Errorf("two profiles at once: %v", err)
	}
	if err := Try(func() { Profile(func() { Ones(2).Add(Ones(3)) }) }); !errors.Is(err, ErrShape) {
		t.Errorf("an error inside: %v", err)
	}
	if n := len(Profile(func() { Ones(2).Neg() }).Spans); n != 2 {
		t.Errorf("%d spans afterwards", n)
	}
}

// Overlap counts the time in which both devices ran ops, once.
func TestTimelineOverlap(t *testing.T) {
	a, b := GPU(0), GPU(1)
	line := &Timeline{Spans: []Span{
		{Device: a, Start: 0, End: 10},
		{Device: a, Start: 2, End: 6}, // within the one before
		{Device: b, Start: 4, End: 8},
		{Device: b, Start: 8, End: 12},
		{Device: b, Start: 0, End: 4, Host: true},   // the program's time
		{Device: b, Start: 0, End: 4, Beside: true}, // a copy
		{Device: a, Start: 11, End: 12},
	}}
	if got := line.Overlap(a, b); got != 7 || line.Overlap(b, a) != got || line.Busy(a) != 11 || line.Busy(b) != 8 {
		t.Errorf("overlap %d, busy %d and %d; want 7, 11 and 8", got, line.Busy(a), line.Busy(b))
	}
}
