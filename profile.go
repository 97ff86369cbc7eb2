package locus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/sketch"
)

var profiling atomic.Pointer[profile]

// Profile runs f and returns what its ops took on their devices: by the GPU's own
// clock, kernel by kernel, where they ran on one. Compiled functions run step by step
// meanwhile, also those that are replayed as one piece otherwise: see [ProfileCalls] for
// those, and [Compiled.Times] for the times of a program's steps. Ops of other goroutines
// are seen too. One profile is taken at a time.
//
//	t := locus.Profile(func() { step(x, y) })
//	fmt.Println(t)                   // a table by op
//	err := t.WriteTrace(file)        // for ui.perfetto.dev or chrome://tracing
//
// It costs a few microseconds per op and waits for the devices at both ends. Call f
// once before: the first steps of a program also load kernels.
func Profile(f func()) *Timeline {
	gate.Check("Profile", gate.Given("the function", f))
	p := newProfile()
	return p.take(f, p)
}

// ProfileCalls is [Profile] that leaves compiled functions as they run otherwise: each
// call of one is a single span, named "compiled". So it tells how long a replay takes as
// a whole.
func ProfileCalls(f func()) *Timeline {
	gate.Check("ProfileCalls", gate.Given("the function", f))
	p := newProfile()
	return p.take(f, pieces{p})
}

// take runs f while w, which is p or made of it, watches.
func (p *profile) take(f func(), w backend.Watcher) *Timeline {
	for _, at := range knownPlaces() { // what was queued before does not count
		if err := at.backend.Synchronize(); err != nil && !errors.Is(err, ErrDeviceLost) { // those that work can be watched
			failOn(at, "Profile", err, nil)
		}
	}
	p.began = time.Now()
	if !profiling.CompareAndSwap(nil, p) { // from here on others note what they do
		fail("Profile", &op.Problem{Kind: ErrArgument, Msg: "a profile is being taken already", Fix: "wait for the other one, and call Profile once around all that is of interest"})
	}
	defer profiling.Store(nil)
	backend.Watch(w)
	defer backend.Watch(nil)
	f()
	backend.Watch(nil)
	return p.timeline()
}

// profile is a timeline in the making.
type profile struct {
	began time.Time

	mu     sync.Mutex
	clocks map[backend.Device]*clock
	ran    []ran
	copies []Span
}

func newProfile() *profile { return &profile{clocks: map[backend.Device]*clock{}} }

// pieces is a profile that sees runs of programs as one piece each.
type pieces struct{ *profile }

// Run runs a call between two marks, unless it is part of a piece.
func (p pieces) Run(d backend.Device, c *backend.Call) error {
	if c.Step != nil {
		return d.Run(c)
	}
	return p.profile.Run(d, c)
}

// Piece runs a program between two marks.
func (p pieces) Piece(d backend.Device, prog any, run func() error) error {
	steps := len(prog.(*program.Program).Steps)
	r := ran{device: d, name: pieceName, detail: fmt.Sprintf("%d steps", steps), site: callsite.Here(2).String(), step: prog}
	if prog.(*program.Program).Waits() { // for what others run on the device meanwhile
		return p.around(&r, run)
	}
	return p.between(&r, run)
}

// clock relates the events of a device to the profile's time.
type clock struct {
	mu    sync.Mutex // what lies between two marks is one op
	queue bool       // ops run on a queue of the device, not on the calling goroutine
	first backend.Event
	at    time.Duration
}

// ran is an op between two points of its device's queue.
type ran struct {
	device   backend.Device
	name     string
	detail   string
	site     string
	step     any
	sort     sketch.Kind
	bytes    int64
	beside   bool
	from, to backend.Event
}

func (p *profile) clock(d backend.Device) *clock {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clocks[d]
	if c == nil {
		c = &clock{queue: d.Info().Kind == backend.GPU, first: mark(d)}
		c.first.Wait()
		c.at = time.Since(p.began)
		p.clocks[d] = c
	}
	return c
}

func mark(d backend.Device) backend.Event {
	if m, ok := d.(backend.Marker); ok {
		return m.Mark()
	}
	return d.Record()
}

// Run runs a call between two marks.
func (p *profile) Run(d backend.Device, c *backend.Call) error {
	if placeOf(d) == nil { // nothing runs while a function is traced
		return d.Run(c)
	}
	r := ran{device: d, name: c.Op.String(), detail: describeCall(c), step: c.Step, sort: program.KindOf(c.Op)}
	if s, ok := c.Step.(*program.Step); ok {
		r.name, r.site = s.Name(), strings.Join(s.Sites(), ", ")
	} else {
		r.site = callsite.Here(2).String()
	}
	return p.between(&r, func() error { return d.Run(c) })
}

// between calls run between two marks of r's device.
func (p *profile) between(r *ran, run func() error) error {
	k := p.clock(r.device)
	if k.queue {
		k.mu.Lock()
		defer k.mu.Unlock()
	}
	return p.around(r, run)
}

// around is between where others may run something of their own in between.
func (p *profile) around(r *ran, run func() error) error {
	p.clock(r.device)
	r.from = mark(r.device)
	err := run()
	r.to = mark(r.device)
	p.mu.Lock()
	p.ran = append(p.ran, *r)
	p.mu.Unlock()
	return err
}

// beside calls run, which queues something on a device's second stream, between two marks of
// that.
func (p *profile) beside(s backend.Sider, d backend.Device, r *ran, run func() error) error {
	p.clock(d)
	r.device, r.beside, r.from = d, true, s.Side(true)
	if err := run(); err != nil {
		return err
	}
	r.to = s.Side(false)
	p.mu.Lock()
	p.ran = append(p.ran, *r)
	p.mu.Unlock()
	return nil
}

// copyIn is CopyIn of a device, which a profile shows where the copy runs beside its ops.
func copyIn(d backend.Device, dst *memory.Block, src []byte, release func()) error {
	p := profiling.Load()
	s, ok := d.(backend.Sider)
	if p == nil || !ok || !s.Aside(len(src)) {
		return d.CopyIn(dst, src, release)
	}
	r := &ran{name: HostToDevice.String(), site: callsite.Here(1).String(), bytes: int64(len(src))}
	return p.beside(s, d, r, func() error { return d.CopyIn(dst, src, release) })
}

// moved notes a copy or a wait.
func (p *profile) moved(kind TransferKind, from, to Device, bytes int, site callsite.Site, start time.Time, spent time.Duration) {
	gpu := to
	if from.IsGPU() {
		gpu = from
	}
	at := start.Sub(p.began)
	p.note(Span{Device: gpu, Name: kind.String(), Site: site.String(), Bytes: int64(bytes), Host: true, Start: at, End: at + spent})
}

// note adds a span that is not an op's: a copy, a wait, a collective. What began before the
// profile is cut.
func (p *profile) note(s Span) {
	s.Start = max(s.Start, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copies = append(p.copies, s)
}

// knownPlaces lists the places that were looked for so far.
func knownPlaces() []*place {
	list := []*place{machine.cpu}
	if l := machine.gpus.Load(); l != nil {
		list = append(list, *l...)
	}
	return list
}

// placeOf returns the place of a backend, nil for one that only records.
func placeOf(b backend.Device) *place {
	for _, p := range knownPlaces() {
		if p.backend == b {
			return p
		}
	}
	return nil
}

// describeCall lists the operands of a call, long lists in short.
func describeCall(c *backend.Call) string {
	const enough = 4
	var s []string
	if e, ok := c.Attrs.(*op.Expression); ok {
		s = append(s, e.String())
	}
	for i := range c.In {
		if i == enough {
			s = append(s, fmt.Sprintf("and %d more", len(c.In)-i))
			break
		}
		if v := &c.In[i]; !v.Const() {
			s = append(s, v.DType.String()+" "+op.ShapeString(v.Shape))
		}
	}
	return strings.Join(s, ", ")
}

// timeline waits for the devices and reads the marks.
func (p *profile) timeline() *Timeline {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &Timeline{Spans: p.copies}
	for _, r := range p.ran {
		r.to.Wait()
		c := p.clocks[r.device]
		t.Spans = append(t.Spans, Span{Device: placeOf(r.device).device, Name: r.name, Detail: r.detail, Site: r.site, step: r.step, sort: r.sort, Bytes: r.bytes, Beside: r.beside,
			Start: c.at + r.from.Since(c.first), End: c.at + r.to.Since(c.first)})
	}
	t.Total = time.Since(p.began)
	slices.SortStableFunc(t.Spans, func(a, b Span) int { return int(a.Start - b.Start) })
	return t
}
