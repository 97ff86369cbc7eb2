package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/trace"
)

// Group is one rank's handle of a group of ranks. [Join] and [Local] make groups. Methods may
// be called from any goroutine, but all ranks must call collectives in the same order.
type Group struct {
	rank, size int
	eng        groupEngine
	timeout    time.Duration
	lingers    time.Duration // how long the goroutine of a queue waits for more

	mu     sync.Mutex
	seq    uint64
	broken error // why the group is over
	closed bool
	left   chan struct{}  // closed with it
	splits int            // calls of Split
	queues map[int]*queue // of collectives, and of messages by peer and direction
}

// groupEngine does a group's work.
type groupEngine interface {
	name(d locus.Device) string // what serves tensors on a device: "ring"
	explain() string            // the same for people, and why
	// enter announces a job to the other ranks and compares; it returns when they agree, or
	// when it is known that they did in an earlier one of the same kind.
	enter(ctx context.Context, j *job) error
	// run does a job that all ranks have entered.
	run(ctx context.Context, j *job) (*locus.Tensor, error)
	// late is told that a job takes too long. The engine ends the group.
	late(j *job, after time.Duration)
	// fail tells the other ranks that this one gives up.
	fail(why string)
	// blame returns the cause of an error, as far as the engine knows better.
	blame(err error) error
	// split makes the engine of a smaller group, in which the rank has another number. All
	// ranks call it, those of color -1 for nothing.
	split(ctx context.Context, at string, color, rank, size int, timeout time.Duration) (groupEngine, error)
	over() <-chan struct{} // closed when the group has ended with a fault
	fault() error
	close()
}

func newGroup(rank, size int, timeout time.Duration) *Group {
	return &Group{rank: rank, size: size, timeout: timeout, lingers: lingers, queues: map[int]*queue{}, left: make(chan struct{})}
}

// Rank returns the rank's number, from 0.
func (g *Group) Rank() int {
	g.made("Rank")
	return g.rank
}

// Size returns the number of ranks.
func (g *Group) Size() int {
	g.made("Size")
	return g.size
}

// Engine returns what serves tensors on a device: "local", "ring", "mpi" or "nccl".
func (g *Group) Engine(d locus.Device) string {
	g.made("Engine")
	return g.eng.name(d)
}

// String returns which rank it is, what moves its data, and why not NCCL where that is not
// used for GPUs: "rank 1 of 4, by ring; GPUs by way of main memory: this rank has no NCCL".
func (g *Group) String() string {
	if !g.ok() {
		return "no group"
	}
	return fmt.Sprintf("rank %d of %d, by %s", g.rank, g.size, g.eng.explain())
}

func (g *Group) ok() bool { return g != nil && g.eng != nil }

const howMade = "make groups with collective.Join or collective.Local"

func (g *Group) made(name string) { gate.Receiver("Group."+name, g.ok(), howMade) }

// Err returns why the group is over, or nil.
func (g *Group) Err() error {
	g.made("Err")
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken != nil {
		return g.broken
	}
	if err := g.eng.fault(); err != nil && !g.closed {
		return newError("Group", err)
	}
	return nil
}

// AllReduce reduces x of all ranks by op and returns the result on each.
func (g *Group) AllReduce(ctx context.Context, x *locus.Tensor, op Op) *Pending {
	return g.start(&job{ctx: ctx, name: "AllReduce", kind: allReduce, x: x, op: op}, func(j *job) error {
		j.text = fmt.Sprintf("all-reduce %s of %s", op, describe(x))
		return op.check(x.DType())
	})
}

// Reduce reduces x of all ranks by op and returns the result on the rank root; the others
// get nil.
func (g *Group) Reduce(ctx context.Context, x *locus.Tensor, op Op, root int) *Pending {
	return g.start(&job{ctx: ctx, name: "Reduce", kind: reduce, x: x, op: op, root: root}, func(j *job) error {
		j.text = fmt.Sprintf("reduce %s of %s to rank %d", op, describe(x), root)
		if err := g.rankOf("the root", root); err != nil {
			return err
		}
		return op.check(x.DType())
	})
}

// Broadcast returns a copy of the rank root's x on every rank. The others pass a tensor of
// the same shape and type, whose elements do not matter; the copy is on that tensor's device.
func (g *Group) Broadcast(ctx context.Context, x *locus.Tensor, root int) *Pending {
	return g.start(&job{ctx: ctx, name: "Broadcast", kind: broadcast, x: x, root: root}, func(j *job) error {
		j.text = fmt.Sprintf("broadcast %s from rank %d", describe(x), root)
		return g.rankOf("the root", root)
	})
}

// AllGather puts x of all ranks one after the other along the first axis, in the order of
// the ranks, and returns that on each. All have the same shape; a scalar counts as one row.
func (g *Group) AllGather(ctx context.Context, x *locus.Tensor) *Pending {
	return g.start(&job{ctx: ctx, name: "AllGather", kind: allGather, x: x}, func(j *job) error {
		j.text = fmt.Sprintf("all-gather %s", describe(x))
		return nil
	})
}

// AllGatherParts is the inverse of [Group.ReduceScatter]: it puts the ranks' parts of a
// tensor of n rows one after the other. Each rank passes the rows that [Part] returns for it.
func (g *Group) AllGatherParts(ctx context.Context, x *locus.Tensor, n int) *Pending {
	return g.start(&job{ctx: ctx, name: "AllGatherParts", kind: allGather, x: x, n: n, parts: true}, func(j *job) error {
		if err := gate.Count("the number of rows", n, 0, 1<<40); err != nil {
			return err
		}
		if x.Rank() == 0 {
			return problem(locus.ErrShape, "reshape it to one row", "a scalar has no rows")
		}
		row, cut := x.Shape()[1:], engine.Even(n, g.size)
		if want := cut[g.rank+1] - cut[g.rank]; rows(x) != want {
			return problem(locus.ErrShape, "collective.Part says which rows a rank has", "rank %d of %d has %d of %d rows, but passed %d", g.rank, g.size, want, n, rows(x))
		}
		j.text = fmt.Sprintf("all-gather of the parts of %s %s", x.DType(), op.ShapeString(append([]int{n}, row...)))
		return nil
	})
}

// ReduceScatter reduces x of all ranks by op and returns on each rank its part: the rows of
// the first axis that [Part] returns for it.
func (g *Group) ReduceScatter(ctx context.Context, x *locus.Tensor, op Op) *Pending {
	return g.start(&job{ctx: ctx, name: "ReduceScatter", kind: reduceScatter, x: x, op: op}, func(j *job) error {
		j.text = fmt.Sprintf("reduce-scatter %s of %s", op, describe(x))
		if x.Rank() == 0 {
			return problem(locus.ErrShape, "reshape it to one row", "a scalar has no rows to divide")
		}
		return op.check(x.DType())
	})
}

// Barrier waits until all ranks have called it. Work that is queued on GPUs may go on.
func (g *Group) Barrier(ctx context.Context) error {
	_, err := g.start(&job{ctx: ctx, name: "Barrier", kind: barrier}, func(j *job) error {
		j.text = "barrier"
		return nil
	}).Wait()
	return err
}

// Send sends x to another rank, which calls [Group.Recv]. Messages between two ranks arrive
// in order; they are not ordered with collectives. Wait returns when x is not needed any
// more, which for small tensors may be before the other rank has called Recv.
func (g *Group) Send(ctx context.Context, x *locus.Tensor, to int) *Pending {
	return g.start(&job{ctx: ctx, name: "Send", kind: send, x: x, root: to}, func(j *job) error {
		j.text = describe(x)
		return g.otherRank(to)
	})
}

// Recv returns what another rank sends with [Group.Send]: a tensor of like's shape and type,
// on its device. like's elements do not matter.
func (g *Group) Recv(ctx context.Context, like *locus.Tensor, from int) *Pending {
	return g.start(&job{ctx: ctx, name: "Recv", kind: recv, x: like, root: from}, func(j *job) error {
		j.text = describe(like)
		return g.otherRank(from)
	})
}

// Part returns which of n rows the rank has when they are divided evenly: those from from to
// below to. The first ranks have one more where n is not a multiple of size.
func Part(n, rank, size int) (from, to int) {
	gate.Check("Part", gate.Count("the number of rows", n, 0, 1<<40), gate.Count("the number of ranks", size, 1, gate.MaxWorkers), gate.Count("the rank", rank, 0, max(size-1, 0)))
	p := engine.Even(n, size)
	return p[rank], p[rank+1]
}

func describe(x *locus.Tensor) string {
	return fmt.Sprintf("%s %s", x.DType(), op.ShapeString(x.Shape()))
}

func rows(x *locus.Tensor) int {
	if x.Rank() == 0 {
		return 1
	}
	return x.Dim(0)
}

func (g *Group) rankOf(what string, rank int) error { return gate.Count(what, rank, 0, g.size-1) }

func (g *Group) otherRank(rank int) error {
	if err := g.rankOf("the other rank", rank); err != nil {
		return err
	}
	if rank == g.rank {
		return problem(locus.ErrArgument, "copy it with CopyTo", "rank %d sends to itself", rank)
	}
	return nil
}

// start checks a job and queues it.
func (g *Group) start(j *job, check func(j *job) error) *Pending {
	if !g.ok() {
		return failed(j.name, gate.Made(false, howMade))
	}
	if err := gate.Given("the context", j.ctx); err != nil {
		return failed(j.name, err)
	}
	in := trace.Current()
	err := guard.Call(func() error {
		if j.kind == barrier {
			lend.Readable(j.name)
		} else {
			if j.x == nil {
				return problem(locus.ErrArgument, "", "the tensor is nil")
			}
			if j.x.Freed() { // also refuses a zero value
				return problem(locus.ErrFreed, "keep the operand until Wait returns", "the operand's memory was freed")
			}
			j.x = j.x.Detach()
		}
		if err := check(j); err != nil {
			return err
		}
		j.rows = j.borders(g.size)
		if in != nil {
			lend.Single(j.name, j.x)
			j.x = j.x.Contiguous()
		}
		return nil
	})
	if err != nil {
		return failed(j.name, err)
	}
	if in != nil {
		return g.record(in, j)
	}
	return g.enqueue(j)
}

// over returns why the group takes no more jobs, or nil. The group is locked.
func (g *Group) over() error {
	if g.closed {
		return closedError()
	}
	return g.broken
}

func closedError() error {
	return &locus.Error{Kind: ErrClosed, Op: "Group", Msg: "this rank has closed the group"}
}

// breakOff ends the group because a job has failed, and returns the error that every later
// call returns.
func (g *Group) breakOff(j *job, err error) error {
	var own error
	if e, ok := g.eng.(*localEngine); ok {
		e.lost(j, err)
		own = e.own(g.rank)
	}
	if f := g.eng.fault(); own != nil {
		err = own
	} else if f != nil {
		err = f
	} else {
		g.eng.fail(fmt.Sprintf("%s: %v", j.text, err))
		if j.ctx.Err() == nil {
			err = g.cause(err)
		}
	}
	err = newError(j.name, err)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken == nil {
		g.broken = err
	}
	if g.closed && errors.Is(g.broken, ErrRank) {
		g.broken = closedError()
	}
	return g.broken
}

// cause returns why the group ends after err, which this rank has told the others of: the
// engine may know better, unless all that it knows is that.
func (g *Group) cause(err error) error {
	var own *locus.Error
	var fault *control.Fault
	why := g.eng.blame(err)
	if errors.As(err, &own) && errors.As(why, &fault) && fault.Cause == control.Failed && fault.Rank == g.rank {
		return err
	}
	return why
}

// Abort ends the group because this rank gives up: collectives that are under way fail, and the
// other ranks get an [ErrRank] that names this one and has the text of why. The group must
// still be closed. Where the group is over already it does nothing.
func (g *Group) Abort(why error) {
	g.made("Abort")
	text := "no reason was given"
	if why != nil {
		text = why.Error()
	}
	g.mu.Lock()
	over := g.closed || g.broken != nil
	g.mu.Unlock()
	if !over && g.eng.fault() == nil {
		g.eng.fail(text)
	}
}

// Close leaves the group. Collectives that are under way are broken off: wait for them
// before. It tells the others, which get an error if they still wait for this rank; rank 0
// waits up to five seconds for the others to leave as well.
func (g *Group) Close() error {
	if !g.ok() {
		return newError("Group.Close", gate.Made(false, howMade))
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	close(g.left)
	g.mu.Unlock()
	g.eng.close()
	return nil
}
