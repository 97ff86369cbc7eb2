package collective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/nccl"
)

// card is a GPU on which a library like NCCL can queue work: internal/cuda's.
type card interface {
	backend.Device
	WithContext(f func() error) error
	Foreign(in []*memory.Block, out *memory.Block, queue func(stream uintptr) error, release func()) (backend.Event, error)
	Card() string

	// Lanes are streams for messages.
	Fence(b *memory.Block) (backend.Event, error)
	OpenLane() (int, error)
	OnLane(lane int, b *memory.Block, queue func(stream uintptr) error, release func()) error
	CloseLane(lane int)
}

// cards serves tensors on NVIDIA GPUs by NCCL, if all ranks have it. Whether they use it is
// decided with the first such tensor, when it is known where all ranks' are.
type cards struct {
	member     *control.Member
	lib        *nccl.Library
	rank, size int
	timeout    time.Duration

	mu       sync.Mutex
	decided  bool
	whyNot   string
	comm     *nccl.Comm
	on       card
	inFlight []flight
	watched  bool

	pairs pairs
}

// ncclLibrary is NCCL.
type ncclLibrary = nccl.Library

// flight is work on the card's stream that is not known to be done.
type flight struct {
	event backend.Event
	job   *job
	since time.Time
}

// ncclInfo is what a rank tells the others in the list of ranks.
func ncclInfo(l *nccl.Library) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("nccl=%d", l.Version)
}

// newCards returns what serves GPUs, or nil and why not.
func newCards(m *control.Member, l *nccl.Library, rank int, timeout time.Duration) (*cards, string) {
	if l == nil {
		return nil, "this rank has no NCCL"
	}
	peers := m.Peers()
	for _, p := range peers {
		if p.Info != ncclInfo(l) {
			has := strings.TrimPrefix(p.Info, "nccl=")
			if has == "" {
				has = "none"
			}
			return nil, fmt.Sprintf("%s has another NCCL (%s) than rank %d (%d)", p, has, rank, l.Version)
		}
	}
	c := &cards{member: m, lib: l, rank: rank, size: len(peers), timeout: timeout}
	go func() {
		<-m.Over()
		c.abort()
	}()
	return c, ""
}

// abort ends what kernels on the card wait for. Each communicator is ended apart: NCCL may
// wait until the card is idle, and so for the others.
func (c *cards) abort() {
	go c.each(held.abort)
	c.mu.Lock()
	comm, on := c.comm, c.on
	c.mu.Unlock()
	if comm != nil {
		_ = on.WithContext(func() error { comm.Abort(); return nil }) // a lost card has ended it
	}
}

// cardOf returns the card that a tensor is on, nil if NCCL does not serve it.
func (c *cards) cardOf(x *locus.Tensor) card {
	if c == nil {
		return nil
	}
	return asCard(lend.Backend(x))
}

// asCard returns the card that a device is, nil if it is none. Tests have others.
var asCard = func(b backend.Device) card {
	d, ok := b.(card)
	if !ok || d.Card() == "" {
		return nil
	}
	return d
}

// address is where a loan's memory is on its card.
func address(l lend.Loan) uintptr {
	if l.Block.Addr == 0 { // of a test's card
		return uintptr(unsafe.Pointer(unsafe.SliceData(l.Bytes())))
	}
	return l.Block.Addr + uintptr(l.Offset)
}

// processOf returns the process that a rank is in. Tests have others.
var processOf = func(rank int) int { return os.Getpid() }

// decide agrees with the other ranks on NCCL and starts it. All call it for the same
// collective. It reports false if the ranks stage through main memory instead.
func (c *cards) decide(ctx context.Context, d card) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decided {
		if c.comm != nil && c.on != d {
			return false, problem(locus.ErrDevice, "keep a rank's tensors on one GPU", "the group's first tensor on this rank was on the card %s, this one is on %s or another share", c.on.Card(), d.Card())
		}
		return c.comm != nil, nil
	}
	if err := c.member.Tell(fmt.Sprintf("card %d", c.rank), []byte(c.placeOf(d))); err != nil {
		return false, err
	}
	if c.rank == 0 {
		if err := c.propose(ctx); err != nil {
			return false, err
		}
	}
	id, err := c.member.Hear(ctx, "nccl id")
	if err != nil {
		return false, err
	}
	c.decided = true
	if len(id) != nccl.IDSize {
		c.whyNot = string(id)
		return false, nil
	}
	t := trafficOf(d)
	if err := t.start(ctx); err != nil {
		return false, err
	}
	defer t.startDone()
	comm, err := c.start(ctx, d, func() (*nccl.Comm, error) { return c.lib.Init(id, c.rank, c.size) })
	if err != nil {
		return false, err
	}
	c.comm, c.on = comm, d
	return true, nil
}

// start makes this rank's part in a group of NCCL's, when the others do.
func (c *cards) start(ctx context.Context, d card, init func() (*nccl.Comm, error)) (*nccl.Comm, error) {
	type made struct {
		comm *nccl.Comm
		err  error
	}
	done := make(chan made, 1)
	go func() { // it cannot be canceled
		var m made
		m.err = d.WithContext(func() (err error) {
			m.comm, err = init()
			return err
		})
		done <- m
	}()
	select {
	case m := <-done:
		if m.err != nil {
			return nil, fmt.Errorf("%s does not start: %w (LOCUS_COLLECTIVE=ring does without it)", c.lib, m.err)
		}
		return m.comm, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", engine.ErrAbandoned, ctx.Err())
	}
}

// placeOf says where a tensor on a card is, for clash: host, card, whether ranks may share
// it, and the process.
func (c *cards) placeOf(d card) string {
	shared := 0
	if os.Getenv("NCCL_MULTI_RANK_GPU_ENABLE") == "1" && c.lib.Version >= 23000 {
		shared = 1
	}
	return fmt.Sprintf("%s %s %d/%d", c.member.Peer(c.rank).Host, d.Card(), shared, processOf(c.rank))
}

// clash returns why NCCL cannot serve two ranks at such places, "" if it can.
func clash(a, b string) string {
	card, how, _ := cutLast(a)
	other, otherHow, _ := cutLast(b)
	shared, pid, _ := strings.Cut(how, "/")
	otherShared, otherPID, _ := strings.Cut(otherHow, "/")
	switch {
	case card != other:
		return ""
	case pid == otherPID:
		// One rank's NCCL waits on the card for the other. If the first then loads a kernel,
		// the driver waits for the card and lets nobody into the context, which both have.
		return "are on one GPU and in one process, where NCCL could wait for ever: collective.Local serves them better"
	case shared != "1" || otherShared != "1":
		return "are on one GPU, for which NCCL needs version 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1"
	}
	return ""
}

// propose is rank 0's word: the id of a group of NCCL's, or why there is none.
func (c *cards) propose(ctx context.Context) error {
	seen := map[string][]int{} // ranks by card
	places := make([]string, c.size)
	for r := range c.size {
		text, err := c.member.Hear(ctx, fmt.Sprintf("card %d", r))
		if err != nil {
			return err
		}
		places[r] = string(text)
		card, _, _ := cutLast(places[r])
		for _, other := range seen[card] {
			if why := clash(places[other], places[r]); why != "" {
				return c.member.Tell("nccl id", fmt.Appendf(nil, "ranks %d and %d %s", other, r, why))
			}
		}
		seen[card] = append(seen[card], r)
	}
	id, err := c.lib.NewID()
	if err != nil {
		return err
	}
	return c.member.Tell("nccl id", id)
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// queues reports whether NCCL serves a collective, so that it is done for the host when it is
// queued. A message waits for the other side before, and its memory is known already.
func (e *remote) queues(j *job) bool {
	if j.kind == send || j.kind == recv || e.cards.cardOf(j.x) == nil {
		return false
	}
	e.cards.mu.Lock()
	defer e.cards.mu.Unlock()
	return e.cards.comm != nil
}

// run queues a job on the card's stream. What uses the result is queued behind.
func (c *cards) run(ctx context.Context, j *job, d card) (*locus.Tensor, error) {
	started := time.Now()
	s := locus.NewScope()
	defer s.Close()
	x := s.Use(j.x).Contiguous()
	in := lend.Memory(j.name, x)
	k := &nccl.Call{In: address(in), N: x.Len(), DType: x.DType(), Op: engine.Op(j.op), Root: j.root}
	for _, r := range j.rows {
		k.Parts = append(k.Parts, r*width(x))
	}
	var out *locus.Tensor
	var block *memory.Block
	if shape, ok := gets(j, c.rank); ok {
		if out = j.into; out == nil {
			out = lend.Make(j.name, x.Device(), false, x.DType(), shape).(*locus.Tensor)
		}
		to := lend.Memory(j.name, out)
		defer to.Release()
		block, k.Out = to.Block, address(to)
	}
	if k.N == 0 && (len(k.Parts) == 0 || k.Parts[len(k.Parts)-1] == 0) {
		in.Release()
		return out, nil
	}
	t := trafficOf(d)
	if err := t.collective(ctx); err != nil {
		in.Release()
		return nil, err
	}
	var event backend.Event
	seen, err := lend.Beside(d, j.name, j.text, x.Bytes(), func() (err error) {
		event, err = d.Foreign([]*memory.Block{in.Block}, block, func(stream uintptr) error { return c.queue(j.kind, k, stream) }, func() {
			in.Release()
			t.collectiveDone()
		})
		return cardError(j.name, err)
	})
	if err != nil {
		return nil, err
	}
	j.watched, j.seen = true, seen
	c.watch(flight{event, j, started})
	return out, nil
}

func (c *cards) queue(kind kind, k *nccl.Call, stream uintptr) error {
	if c.comm.Ended() {
		return errEnded
	}
	switch kind {
	case allReduce:
		return c.comm.AllReduce(k, stream)
	case reduce:
		return c.comm.Reduce(k, stream)
	case broadcast:
		return c.comm.Broadcast(k, stream)
	case allGather:
		return c.comm.AllGather(k, stream)
	case reduceScatter:
		return c.comm.ReduceScatter(k, stream)
	}
	return errors.New("no collective of NCCL's")
}

var errEnded = errors.New("NCCL was ended with the group")

// watch looks after work on the card: a kernel that waits for a rank that does not come
// ends with the time-out, as on the host. A goroutine does so while there is some.
func (c *cards) watch(f flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight = append(c.inFlight, f)
	if !c.watched {
		c.watched = true
		go c.look()
	}
}

func (c *cards) look() {
	late := false
	for n := 1; ; n++ {
		c.mu.Lock()
		for len(c.inFlight) > 0 && c.inFlight[0].event.Done() {
			if lend.Profiling() && !c.inFlight[0].job.seen {
				c.inFlight[0].job.note(c.inFlight[0].since)
			}
			c.inFlight = c.inFlight[1:]
		}
		if len(c.inFlight) == 0 || c.member.Fault() != nil {
			c.inFlight, c.watched = nil, false
			c.mu.Unlock()
			return
		}
		first, comm := c.inFlight[0], c.comm
		c.mu.Unlock()
		if time.Since(first.since) > c.timeout && !late {
			late = true
			c.member.Late(first.job.seq, c.timeout)
		}
		if n%50 == 0 {
			if err := comm.Err(); err != nil {
				c.member.Fail(err.Error())
			}
		}
		if lend.Profiling() { // when it ended is asked for
			time.Sleep(20 * time.Microsecond)
		} else {
			time.Sleep(time.Millisecond)
		}
	}
}

// close waits for what is on its way and ends the rank's part.
func (c *cards) close() {
	defer c.each(held.close)
	for c.member.Fault() == nil && c.busy() {
		time.Sleep(time.Millisecond)
	}
	if c.member.Fault() != nil {
		return // it was aborted
	}
	c.mu.Lock()
	comm, on := c.comm, c.on
	c.mu.Unlock()
	if comm != nil {
		_ = on.WithContext(func() error { comm.Destroy(); return nil }) // a lost card has ended it
	}
	c.each(held.destroy)
}

// busy reports whether something is on its way on the card.
func (c *cards) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pairs.Lock()
	defer c.pairs.Unlock()
	return len(c.inFlight) > 0 || c.pairs.flying > 0
}
