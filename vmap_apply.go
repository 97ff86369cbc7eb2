package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// This is how ops compute with tensors that stand for all slices of a Vmap: by what
// the op's description says, see op.Batch. The rules take the lane of the innermost
// Vmap away; what they apply takes the next.

// innermost returns the lane of the innermost Vmap that an operand is in, or nil.
func innermost(in []*Tensor) *lane {
	var l *lane
	for _, t := range in {
		if t.lane != nil && (l == nil || t.lane.level > l.level) {
			l = t.lane
		}
	}
	return l
}

// batchCall is an op over the slices of a Vmap.
type batchCall struct {
	place *place
	def   *op.Def
	attrs op.Attrs
	in    []*Tensor
	lane  *lane // of the innermost Vmap
	saves bool  // the further results that only a gradient needs are wanted too

	copies []*Tensor // of operands
}

// has reports whether operand i differs between slices.
func (c *batchCall) has(i int) bool { return c.in[i].lane.at(c.lane.level) != nil }

// run runs an op on operands without the lane.
func (c *batchCall) run(id op.ID, attrs op.Attrs, in ...*Tensor) []*Tensor {
	out, more := applyOn(c.place, op.Get(id), attrs, in, c.saves)
	return append([]*Tensor{out}, more...)
}

// lead returns operand i with its slices along a first axis, expanded if they are all
// the same.
func (c *batchCall) lead(i int) *Tensor {
	t := c.in[i]
	if c.has(i) {
		return t.shown(c.def.Name, c.lane.level, len(t.shape))
	}
	same := *c // shown checks the rank
	same.in = []*Tensor{t.detach().alias()}
	same.in[0].lane = t.lane.with(c.lane.level, c.lane.n, 0)
	return same.lead(0)
}

// fold returns operand i with its slices along its first axis, one after the other.
func (c *batchCall) fold(i int) *Tensor {
	t := c.lead(i)
	return c.laid(t, append([]int{t.shape[0] * t.shape[1]}, t.shape[2:]...))
}

// laid returns an operand in another shape: a copy where strides do not allow that, which
// is freed when the op has run.
func (c *batchCall) laid(t *Tensor, shape []int) *Tensor {
	v := t.reshape(shape)
	if v.block != t.block {
		c.copies = append(c.copies, v)
	}
	return v
}

// unfold cuts the first axis of a new tensor into slices and what is left of it.
func (c *batchCall) unfold(t *Tensor) *Tensor {
	return t.reshape(append([]int{c.lane.n, t.shape[0] / c.lane.n}, t.shape[1:]...)).owned()
}

// applyBatched is applyOn for operands that are slices of a Vmap, which fit. track says
// that the result has a history.
func applyBatched(p *place, def *op.Def, attrs op.Attrs, in []*Tensor, track, saves bool) (out *Tensor, more []*Tensor) {
	c := &batchCall{place: p, def: def, attrs: attrs, in: in, lane: innermost(in), saves: track || saves}
	all := c.byRule()
	for _, t := range c.copies {
		t.freeMemory()
	}
	if all == nil {
		if composed := compositions[def.ID] != nil || compositionsAll[def.ID] != nil; composed && def.Batch.Kind != op.BatchLoop && !saves {
			return compose(p, def, attrs, in)
		}
		all = c.loop()
		if looped != nil {
			looped(def)
		}
	}
	for _, t := range all {
		t.behind(c.lane.level)
	}
	out, more = all[0], all[1:]
	if track {
		out.node = &node{def: def, attrs: attrs, inputs: in, out: out, saved: more}
	}
	return out, more
}

// byRule computes all slices by the op's rule; nil if there is none that holds.
func (c *batchCall) byRule() []*Tensor {
	b := &c.def.Batch
	attrs, in := c.attrs, make([]*Tensor, len(c.in))
	if b.Attrs != nil {
		a, ok := b.Attrs(attrs)
		if !ok {
			return nil
		}
		attrs = a
	}
	shared := func(i int) bool { return b.Shared != nil && b.Shared(c.attrs, i) }
	for i := range in {
		if shared(i) && c.has(i) {
			return nil
		}
	}
	switch b.Kind {
	case op.BatchBroadcast:
		rank := 0
		for _, t := range c.in {
			rank = max(rank, len(t.shape))
		}
		for i, t := range c.in {
			if in[i] = t.detach(); c.has(i) {
				in[i] = t.shown(c.def.Name, c.lane.level, rank)
			}
		}
	case op.BatchLead, op.BatchFold:
		for i := range in {
			switch {
			case shared(i):
				in[i] = c.in[i].detach()
			case b.Kind == op.BatchLead:
				in[i] = c.lead(i)
			default:
				in[i] = c.fold(i)
			}
		}
	case op.BatchOwn:
		return batchRules[c.def.ID](c)
	default:
		return nil
	}
	if r, ok := attrs.(op.Reduce); ok && r.Axes == 0 { // of scalars, which become rows of one element
		row := c.run(c.def.ID, op.Reduce{Axes: 1 << 1}, in[0].reshape([]int{c.lane.n, 1}))[0]
		return []*Tensor{row.reshape([]int{c.lane.n}).owned()}
	}
	all := c.run(c.def.ID, attrs, in...)
	if b.Kind == op.BatchFold {
		for i, t := range all {
			all[i] = c.unfold(t)
		}
	}
	return all
}

// looped is told of ops that are computed one slice after the other; tests set it.
var looped func(def *op.Def)

// loop computes one slice after the other.
func (c *batchCall) loop() []*Tensor {
	parts := [][]*Tensor{}
	for k := range c.lane.n {
		in := make([]*Tensor, len(c.in))
		for i, t := range c.in {
			if in[i] = t.detach(); c.has(i) {
				l := t.lane.at(c.lane.level)
				in[i] = t.laid(t.shape, t.strides, t.offset+k*l.stride)
				in[i].lane = t.lane.without(l.level)
			}
		}
		for j, t := range c.run(c.def.ID, c.attrs, in...) {
			if k == 0 {
				parts = append(parts, nil)
			}
			parts[j] = append(parts[j], t)
		}
	}
	all := make([]*Tensor, len(parts))
	for j, slices := range parts {
		all[j] = Stack(0, slices...)
		for _, t := range slices {
			t.Free()
		}
	}
	return all
}

// batchRules are the rules of the ops whose description says op.BatchOwn. They return
// nil where they do not hold.
var batchRules = map[op.ID]func(c *batchCall) []*Tensor{}

func init() {
	batchRules[op.MatMul] = batchMatMul
	batchRules[op.Take] = batchTake
	batchRules[op.IndexAdd] = batchIndexAdd
	batchRules[op.AttendGrad] = batchAttendGrad
	batchRules[op.Conv2D] = batchConv
	batchRules[op.ConvGradInput] = batchConv
	batchRules[op.ConvGradWeight] = batchConvGradWeight
	batchRules[op.Recurrent] = batchRecurrent
	batchRules[op.BatchNorm] = batchChannels
	batchRules[op.BatchNormGrad] = batchChannels
}

// batchMatMul computes one large product where the second factor is one matrix for all
// slices.
func batchMatMul(c *batchCall) []*Tensor {
	if !c.has(1) && len(c.in[1].shape) == 2 {
		y := c.run(op.MatMul, nil, c.fold(0), c.in[1].detach())[0]
		return []*Tensor{c.unfold(y)}
	}
	if s := c.in[1].shape; !c.has(0) && len(s) == 2 && s[1] == 1 { // columns, which are rows of one matrix
		y := c.run(op.MatMul, nil, c.laid(c.lead(1), []int{c.lane.n, s[0]}), c.in[0].detach().T())[0]
		return []*Tensor{y.reshape([]int{c.lane.n, y.shape[1], 1}).owned()}
	}
	return c.run(op.MatMul, nil, c.lead(0), c.lead(1))
}

// spread returns index, which chooses slices of x along an axis, for Gather and
// ScatterAdd: of the shape like, with one index for each element.
func spread(index *Tensor, lead, axis, behind int, like []int) *Tensor {
	shape := append(slices.Clone(index.shape[:lead]), slices.Repeat([]int{1}, axis-lead)...)
	shape = append(append(shape, op.Elements(index.shape[lead:])), slices.Repeat([]int{1}, behind)...)
	return index.reshape(shape).expand(like)
}

// flatIndex returns the shape of what an index chooses of x, with one axis for the
// index.
func flatIndex(x []int, axis, n int) []int {
	s := slices.Clone(x)
	s[axis] = n
	return s
}

// batchTake takes from each slice what its own index says.
func batchTake(c *batchCall) []*Tensor {
	axis, x := c.attrs.(op.Axis).Axis, c.lead(0)
	if !c.has(1) {
		return c.run(op.Take, op.Axis{Axis: axis + 1}, x, c.in[1].detach())
	}
	index := c.lead(1)
	like := flatIndex(x.shape, axis+1, op.Elements(c.in[1].shape))
	at := spread(index, 1, axis+1, len(x.shape)-axis-2, like)
	y := c.run(op.Gather, op.Axis{Axis: axis + 1}, x, at)[0]
	to := append(slices.Clone(x.shape[:axis+1]), c.in[1].shape...)
	to = append(to, x.shape[axis+2:]...)
	checkRank(c, to)
	return []*Tensor{y.reshape(to).owned()}
}

// checkRank fails where a result of all slices has too many axes.
func checkRank(c *batchCall, shape []int) {
	if err := op.CheckShape(shape); err != nil {
		fail(c.def.Name, err, c.in...)
	}
}

// batchIndexAdd adds to each slice where its own index says.
func batchIndexAdd(c *batchCall) []*Tensor {
	axis, x, src := c.attrs.(op.Axis).Axis, c.lead(0), c.lead(2)
	if !c.has(1) {
		return c.run(op.IndexAdd, op.Axis{Axis: axis + 1}, x, c.in[1].detach(), src)
	}
	like := flatIndex(x.shape, axis+1, op.Elements(c.in[1].shape))
	at := spread(c.lead(1), 1, axis+1, len(x.shape)-axis-2, like)
	return c.run(op.ScatterAdd, op.Axis{Axis: axis + 1}, x, at, c.laid(src, like))
}

// batchAttendGrad cuts the gradients of all slices, which lie one after the other, into
// those of each.
func batchAttendGrad(c *batchCall) []*Tensor {
	in := make([]*Tensor, len(c.in))
	for i := range in {
		in[i] = c.lead(i)
	}
	flat := c.run(op.AttendGrad, c.attrs, in...)[0]
	parts, at := make([]*Tensor, 3), 0
	for i := range parts {
		n := c.in[1+i].Len()
		parts[i] = flat.Narrow(0, at, at+n*c.lane.n).reshape([]int{c.lane.n, n})
		at += n * c.lane.n
	}
	y := Concat(1, parts...)
	flat.Free()
	return []*Tensor{y}
}

// channels returns operand i with the channels of all slices side by side: (slices, N,
// C, …) as (N, slices·C, …), and (slices, C) as (slices·C).
func (c *batchCall) channels(i int) *Tensor {
	if len(c.in[i].shape) == 1 {
		return c.fold(i)
	}
	t := c.lead(i).Transpose(0, 1)
	return c.laid(t, append([]int{t.shape[0], t.shape[1] * t.shape[2]}, t.shape[3:]...))
}

// unchannel takes the channels of a new tensor apart again.
func (c *batchCall) unchannel(t *Tensor) *Tensor {
	if len(t.shape) == 1 {
		return c.unfold(t)
	}
	return t.reshape(append([]int{t.shape[0], c.lane.n, t.shape[1] / c.lane.n}, t.shape[2:]...)).Transpose(0, 1).owned()
}

// batchChannels is the rule of batch normalization and its gradient: each channel of each
// slice is one of its own.
func batchChannels(c *batchCall) []*Tensor {
	in := make([]*Tensor, len(c.in))
	for i := range in {
		in[i] = c.channels(i)
	}
	all := c.run(c.def.ID, c.attrs, in...)
	for i, t := range all {
		all[i] = c.unchannel(t)
	}
	return all
}

// batchConv is the rule of Conv2D and ConvGradInput: images of all slices are one
// batch, or if each slice has a weight of its own, groups of channels.
func batchConv(c *batchCall) []*Tensor {
	if !c.has(1) {
		return []*Tensor{c.unfold(c.run(c.def.ID, c.attrs, c.fold(0), c.in[1].detach())[0])}
	}
	a := c.attrs.(op.Conv)
	a.Groups *= c.lane.n
	return []*Tensor{c.unchannel(c.run(c.def.ID, a, c.channels(0), c.fold(1))[0])}
}

// batchRecurrent is the rule of Recurrent, whose second axis is the batch, for weights that
// all slices share.
func batchRecurrent(c *batchCall) []*Tensor {
	_, weights, _, _, _, _ := c.attrs.(op.Recurrence).At()
	in := []*Tensor{c.channels(0)}
	for i := 1; i < len(c.in); i++ {
		switch {
		case i < weights:
			in = append(in, c.fold(i))
		case c.has(i):
			return nil
		default:
			in = append(in, c.in[i].detach())
		}
	}
	all := c.run(c.def.ID, c.attrs, in...)
	for i, t := range all {
		all[i] = c.unchannel(t)
	}
	return all
}

// batchConvGradWeight makes groups of the slices: each has a gradient of its own.
func batchConvGradWeight(c *batchCall) []*Tensor {
	a := c.attrs.(op.Conv)
	a.Groups *= c.lane.n
	return []*Tensor{c.unfold(c.run(c.def.ID, a, c.channels(0), c.channels(1))[0])}
}
