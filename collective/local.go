package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/lend"
)

// Local makes a group whose ranks are parts of this program, and returns a handle for each:
// rank i is meant for tensors on devices[i], which may be virtual GPUs, shares of one GPU,
// several GPUs, or the CPU more than once. One goroutine per rank may use them, or one for all:
// collectives are only started by the calls, so start them on all ranks before waiting.
//
//	groups, err := collective.Local(gpus)
//	pending := make([]*collective.Pending, len(groups))
//	for i, g := range groups {
//		pending[i] = g.AllReduce(ctx, grads[i], collective.Sum)
//	}
func Local(devices []locus.Device, options ...Option) ([]*Group, error) {
	if err := gate.Count("the number of devices", len(devices), 1, gate.MaxWorkers); err != nil {
		return nil, newError("Local", err)
	}
	for i, d := range devices {
		if !d.Exists() {
			return nil, newError("Local", problem(locus.ErrDevice, "locus.TryAllGPUs lists those that are there", "device %d, %s, does not exist", i, d))
		}
	}
	s, err := newSettings(options)
	if err != nil {
		return nil, newError("Local", err)
	}
	return local(len(devices), s.timeout), nil
}

func local(size int, timeout time.Duration) []*Group {
	h := newHall(size)
	groups := make([]*Group, size)
	for i := range groups {
		groups[i] = newGroup(i, size, timeout)
		groups[i].eng = &localEngine{hall: h, rank: i}
	}
	return groups
}

func newHall(size int) *hall {
	return &hall{size: size, rounds: map[uint64]*round{}, seats: make([]seat, size), boxes: map[[2]int]chan parcel{}, ended: make(chan struct{})}
}

// hall is where the ranks of a program meet.
type hall struct {
	size int

	mu     sync.Mutex
	rounds map[uint64]*round
	seats  []seat
	boxes  map[[2]int]chan parcel // from rank, to rank
	why    *control.Fault
	err    error         // of the rank at fault, if another one has seen it
	ended  chan struct{} // closed when there is a fault

	parts map[string]*hall // of groups that are being split off
	taken int              // how many ranks have this one, while it is split off
}

// seat is what the hall knows of a rank.
type seat struct {
	at   uint64 // the number of its next collective
	last string
	left bool
	on   locus.Device // where its last operand was
}

// round is one collective.
type round struct {
	texts  []string // by rank, "" before it has come
	stages [3]stage
	x      []*locus.Tensor // what the ranks pass in
	parts  []*locus.Tensor // what each has reduced
}

// stage is a point that all ranks pass together.
type stage struct {
	came int
	all  chan struct{}
}

// parcel is a message from one rank to another.
type parcel struct {
	x     *locus.Tensor
	text  string
	taken chan struct{}
}

func (h *hall) end(f *control.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(f)
}

// endBy is end where the error of the rank at fault is known.
func (h *hall) endBy(f *control.Fault, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil {
		h.err = err
	}
	h.endLocked(f)
}

// own returns the error of a rank that is at fault and need not know it yet, or nil.
func (h *hall) own(rank int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil || h.why.Rank != rank {
		return nil
	}
	return h.err
}

func (h *hall) endLocked(f *control.Fault) {
	if h.why == nil {
		h.why = f
		close(h.ended)
	}
}

// round returns a collective's round. The hall is locked.
func (h *hall) round(seq uint64) *round {
	r := h.rounds[seq]
	if r == nil {
		r = &round{texts: make([]string, h.size), x: make([]*locus.Tensor, h.size), parts: make([]*locus.Tensor, h.size)}
		for i := range r.stages {
			r.stages[i].all = make(chan struct{})
		}
		h.rounds[seq] = r
	}
	return r
}

// pass waits until all ranks have reached a stage of a round.
func (h *hall) pass(ctx context.Context, r *round, n int) error {
	s := &r.stages[n]
	h.mu.Lock()
	if s.came++; s.came == h.size {
		close(s.all)
	}
	h.mu.Unlock()
	select {
	case <-s.all:
		return nil
	case <-h.ended:
		return h.fault()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hall) fault() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil {
		return nil
	}
	return h.why
}

// localEngine is a rank's part of the hall.
type localEngine struct {
	*hall
	rank int
}

func (e *localEngine) name(locus.Device) string { return "local" }
func (e *localEngine) explain() string          { return "local" }
func (e *localEngine) over() <-chan struct{}    { return e.ended }
func (e *localEngine) blame(err error) error    { return err }

// lost ends the group where err is that of a device that was lost, which may be another
// rank's: that one is to blame.
func (e *localEngine) lost(j *job, err error) {
	if !errors.Is(err, locus.ErrDeviceLost) {
		return
	}
	e.mu.Lock()
	seats := slices.Clone(e.seats)
	e.mu.Unlock()
	for i, s := range seats {
		if s.on.IsGPU() && errors.Is(s.on.Synchronize(), locus.ErrDeviceLost) {
			e.endBy(e.gaveUp(i, fmt.Sprintf("%s: %v", j.text, err)), err)
			return
		}
	}
}

func (e *localEngine) fail(why string) { e.end(e.gaveUp(e.rank, why)) }

func (e *localEngine) gaveUp(rank int, why string) *control.Fault {
	return &control.Fault{Cause: control.Failed, Rank: rank, Msg: fmt.Sprintf("rank %d gave up: %s", rank, why)}
}

func (e *localEngine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seats[e.rank].left = true
	e.missing()
	for _, s := range e.seats {
		if !s.left {
			return
		}
	}
	e.endLocked(&control.Fault{Cause: control.Left, Rank: e.rank, Msg: "all ranks have left the group"})
}

// missing ends the group if a rank waits for one that has left. The hall is locked.
func (h *hall) missing() {
	for seq, r := range h.rounds {
		for i, s := range h.seats {
			if !s.left || s.at > seq {
				continue
			}
			for k, text := range r.texts {
				if text != "" {
					h.endLocked(&control.Fault{Cause: control.Left, Rank: i, Msg: fmt.Sprintf("rank %d has left the group, and rank %d waits for it in collective %d, %s", i, k, seq, text)})
					return
				}
			}
		}
	}
}

func (e *localEngine) late(j *job, after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := &control.Fault{Cause: control.Late, Rank: -1, Msg: fmt.Sprintf("%s has not ended on rank %d within %v", j.text, e.rank, after)}
	if j.kind == send || j.kind == recv {
		f.Rank = j.root
		f.Msg = fmt.Sprintf("%s of %s has not ended on rank %d within %v: rank %d has not made the matching call", j.name, j.text, e.rank, after, j.root)
	} else {
		for i, s := range e.seats {
			if s.at <= j.seq {
				f.Rank = i
				f.Msg += fmt.Sprintf(": rank %d has not come to it", i)
				if s.last != "" {
					f.Msg += "; it was last in " + s.last
				}
				break
			}
		}
	}
	e.endLocked(f)
}

func (e *localEngine) enter(ctx context.Context, j *job) error {
	e.mu.Lock()
	if e.why != nil {
		e.mu.Unlock()
		return e.fault()
	}
	r := e.round(j.seq)
	r.texts[e.rank] = j.text
	r.x[e.rank] = j.x
	e.seats[e.rank].at = j.seq + 1
	e.seats[e.rank].last = j.text
	if j.x != nil {
		e.seats[e.rank].on = j.x.Device()
	}
	for i, text := range r.texts {
		if text != "" && text != j.text {
			e.endLocked(differ(j.seq, r.texts, i))
			e.mu.Unlock()
			return e.fault()
		}
	}
	e.missing()
	e.mu.Unlock()
	err := e.pass(ctx, r, 0)
	if err == nil && j.kind == barrier {
		e.leave(j)
	}
	return err
}

// leave forgets a round that all ranks have passed.
func (e *localEngine) leave(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.rounds, j.seq)
}

func differ(seq uint64, texts []string, rank int) *control.Fault {
	var b strings.Builder
	fmt.Fprintf(&b, "ranks differ in collective %d:", seq)
	for i, t := range texts {
		if t == "" {
			t = "has not come to it yet"
		}
		if i == 8 {
			b.WriteString("\n  …")
			break
		}
		fmt.Fprintf(&b, "\n  rank %d: %s", i, t)
	}
	return &control.Fault{Cause: control.Differ, Rank: rank, Msg: b.String()}
}

func (e *localEngine) run(ctx context.Context, j *job) (*locus.Tensor, error) {
	// What is computed on the way belongs to a scope of this rank's, whatever the scopes of
	// the operands are.
	s := locus.NewScope()
	defer s.Close()
	switch j.kind {
	case send:
		return nil, e.send(ctx, j)
	case recv:
		return e.recv(ctx, j)
	}
	e.mu.Lock()
	r := e.round(j.seq)
	e.mu.Unlock()
	var out *locus.Tensor
	err := guard.Call(func() (err error) {
		if out, err = e.compute(ctx, s, j, r); err != nil {
			return err
		}
		if out != nil {
			s.Keep(out)
		}
		// The others may read this rank's operand and part until all are done.
		return e.pass(ctx, r, 2)
	})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		// Before the scope frees this rank's part: one that finds it freed must know why.
		e.lost(j, err)
		e.endBy(e.gaveUp(e.rank, fmt.Sprintf("%s: %v", j.text, err)), err)
		return nil, err
	}
	e.leave(j)
	return out, nil
}

func (e *localEngine) compute(ctx context.Context, s *locus.Scope, j *job, r *round) (*locus.Tensor, error) {
	d := j.x.Device()
	in := func(rank int) *locus.Tensor { return s.Use(r.x[rank].Detach()) }
	switch j.kind {
	case broadcast:
		return in(j.root).CopyTo(d), nil
	case allGather:
		all := make([]*locus.Tensor, e.size)
		for i := range all {
			all[i] = in(i).To(d)
			if all[i].Rank() == 0 {
				all[i] = all[i].Reshape(1)
			}
		}
		return locus.Concat(0, all...), nil
	case reduceScatter:
		cut := locus.R(j.rows[e.rank], j.rows[e.rank+1])
		return e.reduce(j.op, d, func(i int) *locus.Tensor { return in(i).Slice(cut) }), nil
	case reduce:
		if e.rank != j.root {
			return nil, nil
		}
		return e.reduce(j.op, d, in), nil
	}
	// Each rank reduces its part of all operands, and all copy the parts.
	border := engine.Even(j.x.Len(), e.size)
	cut := locus.R(border[e.rank], border[e.rank+1])
	r.parts[e.rank] = e.reduce(j.op, d, func(i int) *locus.Tensor { return in(i).Reshape(-1).Slice(cut) })
	if err := e.pass(ctx, r, 1); err != nil {
		return nil, err
	}
	all := make([]*locus.Tensor, e.size)
	for i := range all {
		all[i] = s.Use(r.parts[i]).To(d)
	}
	flat := locus.Concat(0, all...)
	s.Keep(flat)
	return lend.Own(flat.Reshape(j.x.Shape()...)).(*locus.Tensor), nil
}

// reduce reduces what in returns for each rank, in their order, on a device. Half-precision types are
// added up in float32 and rounded once.
func (e *localEngine) reduce(o Op, d locus.Device, in func(rank int) *locus.Tensor) *locus.Tensor {
	first := in(0).To(d)
	was := first.DType()
	wide := was
	switch {
	case was.IsHalf():
		wide = locus.Float32
	case was == locus.Bool:
		wide = locus.Uint8
	}
	acc := first.Cast(wide)
	for i := 1; i < e.size; i++ {
		x := in(i).To(d).Cast(wide)
		switch o {
		case Max:
			acc = acc.Maximum(x)
		case Min:
			acc = acc.Minimum(x)
		case Product:
			acc = acc.Mul(x)
		default:
			acc = acc.Add(x)
		}
	}
	if o == Mean {
		acc = acc.Div(e.size)
	}
	acc = acc.Cast(was)
	if acc.IsView() || acc.SharesMemory(first) { // of an operand, with one rank
		acc = acc.CopyTo(d)
	}
	return acc
}

func (h *hall) box(from, to int) chan parcel {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := [2]int{from, to}
	b := h.boxes[key]
	if b == nil {
		b = make(chan parcel)
		h.boxes[key] = b
	}
	return b
}

func (e *localEngine) send(ctx context.Context, j *job) error {
	p := parcel{j.x, j.text, make(chan struct{})}
	select {
	case e.box(e.rank, j.root) <- p:
	case <-e.ended:
		return e.fault()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-p.taken:
		return nil
	case <-e.ended:
		return e.fault()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *localEngine) recv(ctx context.Context, j *job) (*locus.Tensor, error) {
	select {
	case p := <-e.box(j.root, e.rank):
		if p.text != j.text {
			return nil, &control.Fault{Cause: control.Differ, Rank: j.root, Msg: fmt.Sprintf("rank %d sends %s and rank %d expects %s", j.root, p.text, e.rank, j.text)}
		}
		s := locus.NewScope()
		defer s.Close()
		out := s.Use(p.x).CopyTo(j.x.Device())
		s.Keep(out)
		close(p.taken)
		return out, nil
	case <-e.ended:
		return nil, e.fault()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
