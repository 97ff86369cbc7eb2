package locus

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/goid"
	"github.com/locusml/locus/internal/op"
)

// Vmap returns a function that applies f to each slice of its arguments along their
// first axis and stacks the results. It calls f once, with tensors that look like one
// slice and stand for all of them: every op inside computes all slices in one go.
// Gradients flow through, and f may take some itself: Vmap of a gradient returns one
// per example. Calls may be nested.
//
// What f takes from elsewhere is the same for all slices, a [Key] too. A random tensor
// made without a key draws a key per slice. As f is called once, it cannot look at
// elements: reading a value, and ops whose shape depends on elements, are an
// [ErrArgument]. A slice inside may have one axis less than [MaxRank] in each op.
//
//	perExample := locus.Vmap(func(a ...*locus.Tensor) *locus.Tensor {
//		_, g := locus.ValueAndGrad(loss)(w, a[0])
//		return g[0]
//	})(x)
func Vmap(f func(args ...*Tensor) *Tensor) func(args ...*Tensor) *Tensor {
	gate.Check("Vmap", gate.Given("the function", f))
	return func(args ...*Tensor) *Tensor {
		n := slicesOf(args)
		level := levels.Add(1)
		slices := make([]*Tensor, len(args))
		for i, a := range args {
			slices[i] = a.intoLane(level)
		}
		var y *Tensor
		drawing(level, n, func() { y = f(slices...) })
		y.check("Vmap")
		if y.lane != nil && y.lane.level > level {
			fail("Vmap", &op.Problem{Kind: ErrArgument, Msg: "the function's result is a tensor from inside a Vmap that has ended",
				Fix: "use what the inner Vmap returned"}, y)
		}
		return y.outOfVmap(level, n)
	}
}

// slicesOf checks Vmap's arguments and returns the size of their first axis.
func slicesOf(args []*Tensor) int {
	usable("Vmap", args)
	if len(args) == 0 || args[0].Rank() == 0 {
		failf("Vmap", ErrShape, args, "needs arguments with a first axis")
	}
	n := args[0].shape[0]
	for _, a := range args {
		if a.Rank() == 0 || a.shape[0] != n {
			failf("Vmap", ErrShape, args, "arguments differ in the size of their first axis")
		}
	}
	if n == 0 {
		failf("Vmap", ErrShape, args, "the first axis is empty")
	}
	// An empty tensor may have an axis that no memory bounds.
	gate.Check("Vmap", gate.Count("the size of the first axis", n, 1, max(args[0].Len(), gate.MaxParts)))
	return n
}

// lane is an axis of a tensor that a Vmap hides: shape, strides and offset of the
// tensor are those of its first slice. Lanes never change. A tensor in several Vmaps
// has several, the innermost first.
type lane struct {
	level     int64
	n, stride int
	outer     *lane
}

// levels numbers the calls of Vmap: inner ones have larger numbers.
var levels atomic.Int64

// at returns the lane of a level, or nil.
func (l *lane) at(level int64) *lane {
	for ; l != nil; l = l.outer {
		if l.level == level {
			return l
		}
	}
	return nil
}

// without returns the lanes without that of a level.
func (l *lane) without(level int64) *lane {
	switch {
	case l == nil:
		return nil
	case l.level == level:
		return l.outer
	}
	return &lane{l.level, l.n, l.stride, l.outer.without(level)}
}

// with returns the lanes with one more.
func (l *lane) with(level int64, n, stride int) *lane {
	if l == nil || l.level < level {
		return &lane{level, n, stride, l}
	}
	return &lane{l.level, l.n, l.stride, l.outer.with(level, n, stride)}
}

// missing returns those lanes whose level others do not have, as lanes along which
// nothing changes, in front of others.
func (l *lane) missing(others *lane) *lane {
	for ; l != nil; l = l.outer {
		if others.at(l.level) == nil {
			others = others.with(l.level, l.n, 0)
		}
	}
	return others
}

// shown returns a view of t without history, in which the lane of a level is the
// first axis, and axes of size 1 are put in behind it until it has rank+1 axes.
func (t *Tensor) shown(name string, level int64, rank int) *Tensor {
	l := t.lane.at(level)
	if rank+1 > MaxRank {
		fail(name, &op.Problem{Kind: ErrShape, Msg: "a slice inside Vmap has as many axes as a tensor can have; each Vmap takes one of them",
			Fix: "reshape it to fewer axes"}, t)
	}
	shape, strides := make([]int, 1+rank), make([]int, 1+rank)
	shape[0], strides[0] = l.n, l.stride
	pad := 1 + rank - len(t.shape)
	for i := 1; i < pad; i++ {
		shape[i] = 1
	}
	copy(shape[pad:], t.shape)
	copy(strides[pad:], t.strides)
	v := t.laid(shape, strides, t.offset)
	v.lane = t.lane.without(level)
	return v
}

// behind makes the first axis of t, a result that no one has seen yet, the lane of a
// level.
func (t *Tensor) behind(level int64) *Tensor {
	t.lane = t.lane.with(level, t.shape[0], t.strides[0])
	t.shape, t.strides = t.shape[1:], t.strides[1:]
	return t
}

// intoLane returns a view of t whose first axis is the lane of a level.
func (t *Tensor) intoLane(level int64) *Tensor {
	n := t.shape[0]
	v := t.laid(t.shape, t.strides, t.offset).behind(level)
	if tracked([]*Tensor{t}) {
		v.node = &node{inputs: []*Tensor{t}, out: v, own: &ownRule{name: "vmap", level: level, back: func(_ *node, g *Tensor) []*Tensor {
			return []*Tensor{g.outOfLane(level, n)}
		}}}
	}
	return v
}

// outOfLane returns a view of t whose first axis is the lane of a level. If t has none
// it is the same in all n slices.
func (t *Tensor) outOfLane(level int64, n int) *Tensor {
	if t.lane.at(level) == nil {
		if len(t.shape) == MaxRank {
			failf("Vmap", ErrShape, []*Tensor{t}, "the result of all slices has more than %d axes", MaxRank)
		}
		return t.expand(append([]int{n}, t.shape...))
	}
	v := t.shown("Vmap", level, len(t.shape))
	if tracked([]*Tensor{t}) {
		v.node = &node{inputs: []*Tensor{t}, out: v, own: &ownRule{name: "vmap", level: level, back: func(_ *node, g *Tensor) []*Tensor {
			return []*Tensor{g.intoLane(level)}
		}}}
	}
	return v
}

// outOfVmap returns the slices of t, a Vmap's result, as a tensor of its own: in t's
// memory if that is t's.
func (t *Tensor) outOfVmap(level int64, n int) *Tensor {
	v := t.outOfLane(level, n)
	if t.owner && t.lane.at(level) != nil && v.IsContiguous() && v.lane == nil {
		t.owner = false
		return v.owned()
	}
	return apply(op.Copy, nil, v)
}

// whole returns t, or where Vmaps hide axes of it a view of all its slices as one axis
// in front each, without history.
func (t *Tensor) whole(name string) *Tensor {
	for t.lane != nil {
		t = t.shown(name, t.lane.level, len(t.shape))
	}
	return t
}

// single panics if t stands for the slices of a Vmap, where name must look at elements.
func (t *Tensor) single(name string) {
	if t.lane != nil {
		fail(name, &op.Problem{Kind: ErrArgument, Msg: "inside Vmap a tensor stands for all slices at once: its elements cannot be looked at",
			Fix: "compute with Where instead of a condition, or do this to what Vmap returns"}, t)
	}
}

// drawings are the Vmaps that goroutines are inside of, the innermost first, for
// random tensors without a key. See noGrad.
var drawings struct {
	active atomic.Int64
	mu     sync.RWMutex
	lanes  map[uintptr]*lane
}

// drawing runs f, in which random tensors without a key have n slices.
func drawing(level int64, n int, f func()) {
	id := goid.Get()
	set := func(l *lane) (old *lane) {
		drawings.mu.Lock()
		defer drawings.mu.Unlock()
		if drawings.lanes == nil {
			drawings.lanes = map[uintptr]*lane{}
		}
		old = drawings.lanes[id]
		if drawings.lanes[id] = l; l == nil {
			delete(drawings.lanes, id)
		}
		return old
	}
	drawings.mu.RLock()
	outer := drawings.lanes[id]
	drawings.mu.RUnlock()
	set(&lane{level: level, n: n, outer: outer})
	drawings.active.Add(1)
	defer func() {
		drawings.active.Add(-1)
		set(outer)
	}()
	f()
}

// slicesDrawn returns the lanes that a random tensor without a key has in the calling
// goroutine.
func slicesDrawn() *lane {
	if drawings.active.Load() == 0 {
		return nil
	}
	drawings.mu.RLock()
	defer drawings.mu.RUnlock()
	return drawings.lanes[goid.Get()]
}

// draw makes a random tensor with one key for each slice: the slices of an inner Vmap
// follow each other.
func (m Maker) draw(l *lane, make func(key Key) *Tensor) *Tensor {
	total := 1
	for o := l; o != nil; o = o.outer {
		total *= o.n
	}
	parts := []*Tensor{}
	for range total {
		parts = append(parts, make(NextKey()))
	}
	one := parts[0]
	for i, t := range parts {
		parts[i] = t.reshape([]int{t.Len()})
	}
	all := Concat(0, parts...)
	stride := one.Len()
	all.shape, all.strides = one.shape, one.strides
	for _, o := range lanesOf(l) {
		all.lane = all.lane.with(o.level, o.n, stride)
		stride *= o.n
	}
	return all
}

// lanesOf lists lanes, the innermost first.
func lanesOf(l *lane) (list []*lane) {
	for ; l != nil; l = l.outer {
		list = append(list, l)
	}
	return slices.Clip(list)
}
