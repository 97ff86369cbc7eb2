package locus

import (
	"fmt"
	"math"

	"github.com/locusml/locus/internal/op"
)

// CTCOptions are the options of [CTCLoss].
type CTCOptions struct {
	Blank        int  // the class that stands for no label
	ZeroInfinity bool // targets that are too long for their sequences count 0 instead of +Inf
	// Reduction ReduceMean divides each loss by the length of its target and takes the mean over the batch, as
	// PyTorch's does.
	Reduction Reduction
}

// CTCLoss returns the connectionist temporal classification loss (Graves et al., 2006): the negative
// log-likelihood of labels whose places in a longer sequence are not known. logp (T, N, C) or
// (T, C) are logarithms of probabilities, as from [Tensor.LogSoftmax]. Targets are classes, (N, S)
// padded with anything, or one after the other in a vector; (S) without a batch. The lengths,
// integers (N), say how many steps and how many labels count; nil means all. With
// targets in a vector targetLengths are needed, and CTCLoss waits for their maximum: a
// compiled function needs padded targets.
//
// A target that no path fits, because it has more labels (and blanks between equal ones) than its
// sequence has steps, has the loss +Inf and passes no gradient. The gradient is the derivative by
// logp; PyTorch's differs from it unless logp comes from a LogSoftmax, behind which both are the
// same. Logarithms in half precision are computed with in float32, and the loss is float32.
func CTCLoss(logp, targets, lengths, targetLengths *Tensor, o CTCOptions) *Tensor {
	const name = "CTCLoss"
	in := given(2, logp, targets, lengths, targetLengths)
	checkOperands(name, in)
	logp.wantFloat(name)
	batched := len(logp.shape) == 3
	if !batched && len(logp.shape) != 2 {
		failf(name, ErrShape, in, "logp has %d dimensions; want (T, N, C), or (T, C) without a batch", len(logp.shape))
	}
	for _, t := range []*Tensor{targets, lengths, targetLengths} {
		if t != nil && !t.dtype.IsInt() {
			failf(name, ErrDType, in, "targets and lengths are integers, not %s", t.dtype)
		}
	}
	x := logp
	if !batched {
		x = x.Unsqueeze(1)
		if len(targets.shape) != 1 {
			failf(name, ErrShape, in, "targets have %d dimensions; without a batch they are (S)", len(targets.shape))
		}
		targets = targets.Unsqueeze(0)
	}
	if o.Blank < 0 || o.Blank >= x.shape[2] {
		failf(name, ErrArgument, in, "the blank is %d; there are %d classes", o.Blank, x.shape[2])
	}
	n := x.shape[1]
	defer naming(name, in)
	if len(targets.shape) == 1 {
		targets = padTargets(name, in, targets, targetLengths, n)
	}
	if len(targets.shape) != 2 || targets.shape[0] != n {
		failf(name, ErrShape, in, "targets have shape %s; want (%d, S), or all in one vector", op.ShapeString(targets.shape), n)
	}
	steps := lengthsOf(name, in, lengths, x, x.shape[0], n, "steps")
	labels := lengthsOf(name, in, targetLengths, x, targets.shape[1], n, "labels")
	if targets.dtype == Uint8 {
		targets = targets.Cast(Int32)
	}
	defer hint(ErrIndex, fmt.Sprintf("labels are 0 to %d; at most %d steps and %d labels count", x.shape[2]-1, x.shape[0], targets.shape[1]))
	loss := apply(op.CTC, op.Alignment{Blank: o.Blank}, x.Permute(1, 0, 2), targets, steps, labels)
	if o.ZeroInfinity {
		loss = loss.IsInf().Where(0, loss)
	}
	if o.Reduction == ReduceMean {
		loss = loss.Div(labels.Maximum(1).Cast(loss.dtype))
	}
	if !batched && o.Reduction == ReduceNone {
		return loss.Squeeze(0).owned()
	}
	return o.Reduction.of(name, loss)
}

// lengthsOf returns the lengths (N) that were given, or all.
func lengthsOf(name string, in []*Tensor, lengths, x *Tensor, all, n int, of string) *Tensor {
	if lengths == nil {
		return x.beside(x.place.device.As(Int64).Full(float64(all), n))
	}
	if n == 1 && len(lengths.shape) == 0 {
		lengths = lengths.Unsqueeze(0)
	}
	if !sameShape(lengths.shape, []int{n}) {
		failf(name, ErrShape, in, "the numbers of %s have shape %s; want one for each of %d sequences", of, op.ShapeString(lengths.shape), n)
	}
	if lengths.dtype == Uint8 {
		return lengths.Cast(Int32)
	}
	return lengths
}

// padTargets lays targets that follow one another out in rows.
func padTargets(name string, in []*Tensor, targets, lengths *Tensor, n int) *Tensor {
	if lengths == nil || !sameShape(lengths.shape, []int{n}) {
		failf(name, ErrShape, in, "targets in one vector need the length of each of %d", n)
	}
	targets.single(name)
	lengths.single(name)
	countable(name)
	if n == 0 {
		return targets.reshape([]int{0, targets.Len()})
	}
	each := lengths.detach().Cast(Int64)
	if low, sum := each.Min().Int(), each.Sum().Int(); low < 0 || int(sum) != targets.Len() {
		failf(name, ErrShape, in, "the targets' lengths add up to %d; there are %d labels", sum, targets.Len())
	}
	longest := int(each.Max().Int())
	fits(targets.place, name, targets.dtype, []int{n, longest}, in...)
	if longest == 0 {
		return targets.reshape([]int{n, 0})
	}
	first := each.CumSum(0).Sub(each).Unsqueeze(1)
	at := first.Add(targets.arange(longest)).Minimum(targets.Len() - 1)
	return targets.Take(0, at)
}

// impossible is the logarithm of a probability that counts as zero: less than any sum of
// logarithms, and finite, so that differences of two such are numbers.
const impossible = -1e30

// ctcPaths is what the compositions of the loss and of its gradient begin with.
type ctcPaths struct {
	x             *Tensor // (N, T, C), in float32 at least and nowhere infinite
	label         *Tensor // (N, L): the class of each state
	at            *Tensor // (N, T, L): what x says of it
	over          *Tensor // (N, L): whether a path may come from two states before
	steps, labels *Tensor // (N, 1)
	states        *Tensor // (L): their numbers
}

func newCTCPaths(a op.Alignment, x, targets, steps, labels *Tensor) ctcPaths {
	n, t, s := x.shape[0], x.shape[1], targets.shape[1]
	// A length out of range is an index out of range.
	within := func(l *Tensor, most int) *Tensor { return l.arange(most+1).Take(0, l).Unsqueeze(1) }
	p := ctcPaths{x: x.wide().Maximum(impossible), steps: within(steps, t), labels: within(labels, s), states: x.arange(2*s + 1)}
	active := x.arange(s).Lt(p.labels)
	blank := p.labels.Mul(0).Add(a.Blank)
	classes := active.Where(targets.Cast(Int64), blank)
	// Blank, label, blank, label, …, blank.
	pairs := Stack(2, blank.expand([]int{n, s}), classes).reshape([]int{n, 2 * s})
	p.label = Concat(1, pairs, blank)
	p.at = p.x.Gather(2, p.label.Unsqueeze(1).expand([]int{n, t, 2*s + 1}))
	p.over = p.label.Ne(a.Blank).And(p.label.Ne(ctcShift(p.label, 2, -1)))
	return p
}

// ctcShift returns states (N, L) moved by k to higher numbers, with fill before them.
func ctcShift(x *Tensor, k int, fill float64) *Tensor {
	if k > 0 {
		k = min(k, x.shape[1])
		return x.Narrow(1, 0, x.shape[1]-k).Pad(fill, 0, 0, k, 0)
	}
	k = min(-k, x.shape[1])
	return x.Narrow(1, k, x.shape[1]).Pad(fill, 0, 0, 0, k)
}

// step returns x's word on the states at a time.
func (p ctcPaths) step(t int) *Tensor { return p.at.Narrow(1, t, t+1).Squeeze(1) }

// forward returns for every time the logarithms of the probabilities of all beginnings of
// paths that end in each state. Behind the last step of a sequence they stay.
func (p ctcPaths) forward() []*Tensor {
	var all []*Tensor
	for t := range p.at.shape[1] {
		if t == 0 {
			all = append(all, p.states.Lt(2).Where(p.step(0), impossible))
			continue
		}
		last := all[t-1]
		over := p.over.Where(ctcShift(last, 2, impossible), impossible)
		next := last.LogAddExp(ctcShift(last, 1, impossible)).LogAddExp(over).Add(p.step(t))
		all = append(all, p.steps.Gt(t).Where(next, last))
	}
	return all
}

// backward is forward from the ends: of all ends of paths that begin in each state.
func (p ctcPaths) backward() []*Tensor {
	all := make([]*Tensor, p.at.shape[1])
	far := p.label.Ne(-1).And(ctcShift(p.over.Cast(Int64), -2, 0).Ne(0)) // whether two states further is allowed
	ends := p.states.Eq(p.labels.Mul(2)).Or(p.states.Eq(p.labels.Mul(2).Sub(1)))
	for t := len(all) - 1; t >= 0; t-- {
		first := ends.Where(p.step(t), impossible)
		if t == len(all)-1 {
			all[t] = p.steps.Eq(t+1).Where(first, impossible)
			continue
		}
		last := all[t+1]
		over := far.Where(ctcShift(last, -2, impossible), impossible)
		next := last.LogAddExp(ctcShift(last, -1, impossible)).LogAddExp(over).Add(p.step(t))
		all[t] = p.steps.Eq(t+1).Where(first, p.steps.Gt(t+1).Where(next, impossible))
	}
	return all
}

// loss returns the losses (N) from what forward returned.
func (p ctcPaths) loss(alpha []*Tensor) *Tensor {
	none := p.labels.Eq(0)
	empty := none.Where(p.x.fullOf(0, none.shape), math.Inf(1))
	if len(alpha) == 0 {
		return empty.Squeeze(1)
	}
	last := alpha[len(alpha)-1]
	end := last.Gather(1, p.labels.Mul(2))
	before := none.Where(impossible, last.Gather(1, p.labels.Mul(2).Sub(1).Maximum(0)))
	loss := end.LogAddExp(before).Neg()
	loss = loss.Ge(-impossible/10).Where(math.Inf(1), loss)
	return p.steps.Eq(0).Where(empty, loss).Squeeze(1)
}

func init() {
	compositions[op.CTC] = func(a op.Attrs, in []*Tensor) *Tensor {
		p := newCTCPaths(a.(op.Alignment), in[0], in[1], in[2], in[3])
		return p.loss(p.forward())
	}
	gradients[op.CTC] = func(n *node, g *Tensor) []*Tensor {
		grads := make([]*Tensor, 4)
		if n.out.Len() == 0 || n.inputs[0].Len() == 0 { // nothing was saved
			grads[0] = n.inputs[0].ZerosLike()
			return grads
		}
		grads[0] = apply(op.CTCGrad, n.attrs, append(append([]*Tensor{}, n.inputs...), g, n.saved[0], n.out)...)
		return grads
	}
	compositions[op.CTCGrad] = func(a op.Attrs, in []*Tensor) *Tensor {
		x, g := in[0], in[4] // what was saved, and the losses, are computed again: they have no history
		n, t, c := x.shape[0], x.shape[1], x.shape[2]
		p := newCTCPaths(a.(op.Alignment), x, in[1], in[2], in[3])
		alpha := p.forward()
		loss := p.loss(alpha)
		fits := loss.IsFinite()
		loss = fits.Where(loss, 0)
		both := Stack(1, alpha...).Add(Stack(1, p.backward()...)).Sub(p.at) // (N, T, L)
		inside := x.arange(t).Lt(p.steps).And(fits.Unsqueeze(1)).Unsqueeze(2)
		share := inside.Where(both.Add(loss.Reshape(n, 1, 1)), impossible).Exp().Mul(g.Neg().Reshape(n, 1, 1))
		at := p.label.Unsqueeze(1).expand([]int{n, t, p.label.shape[1]})
		return p.x.fullOf(0, []int{n, t, c}).ScatterAdd(2, at, share).Cast(x.dtype)
	}
	gradients[op.CTCGrad] = throughComposition
}
