package locus

import (
	"fmt"

	"github.com/locusml/locus/internal/op"
)

// CrossEntropyOptions are the options of [CrossEntropy].
type CrossEntropyOptions struct {
	Weight         *Tensor // (C): the weight of each class
	IgnoreIndex    *int    // targets with this number, such as new(-100), are ignored; nil ignores none
	LabelSmoothing float64 // how much of the target is spread over all classes, 0 to 1
	Reduction      Reduction
}

// CrossEntropy returns the negative log-likelihood of the target under
// softmax(logits): logits (N, C, …) or (C). The target is either integers
// (N, …), the classes, or floating point of the shape of logits, their
// probabilities. The mean is over the targets that count: with class targets,
// weighted with the weights of the classes and without ignored targets. A class
// outside 0 to C-1 is an [ErrIndex], on a GPU at the next wait.
//
// Logits in half precision are computed with in float32, and the loss is float32:
// there is no need to convert them first, which would take memory and time.
func CrossEntropy(logits, target *Tensor, o CrossEntropyOptions) *Tensor {
	const name = "CrossEntropy"
	in := given(2, logits, target, o.Weight)
	class := classAxis(name, in, logits, o.Weight)
	if !(o.LabelSmoothing >= 0 && o.LabelSmoothing <= 1) {
		failf(name, ErrArgument, in, "label smoothing is %v; want 0 to 1", o.LabelSmoothing)
	}
	defer naming(name, in)
	if class == len(logits.shape)-1 && !target.dtype.IsFloat() && o.LabelSmoothing == 0 {
		picked := pickClasses(name, in, logits, target, class, o.Weight, o.IgnoreIndex, func(classes *Tensor) *Tensor {
			rows := []int{op.Elements(classes.shape), logits.shape[class]}
			return apply(op.CrossEntropy, nil, logits.reshape(rows), classes.reshape(rows[:1])).reshape(classes.shape).owned()
		})
		return picked.reduce(name, picked.loss, o.Reduction)
	}
	logits, o.Weight = logits.wide(), widened(o.Weight)
	logp := apply(op.LogSoftmax, op.Axis{Axis: class}, logits)
	c := logits.shape[class]
	spread := o.LabelSmoothing / float64(c)
	if target.dtype.IsFloat() {
		if !sameShape(target.shape, logits.shape) {
			failf(name, ErrShape, in, "probabilities must have the shape of logits, %s", op.ShapeString(logits.shape))
		}
		if o.IgnoreIndex != nil {
			failf(name, ErrArgument, in, "an ignored class does not go with probabilities")
		}
		target = target.wide()
		if o.LabelSmoothing > 0 {
			target = target.Mul(1 - o.LabelSmoothing).Add(spread)
		}
		loss := logp.Mul(target)
		if o.Weight != nil {
			loss = loss.Mul(classWeights(o.Weight, logits, class))
		}
		loss = loss.Sum(class).Neg()
		// The mean is over examples; Sum took the classes out.
		return o.Reduction.of(name, loss)
	}
	picked := pickClasses(name, in, logp, target, class, o.Weight, o.IgnoreIndex, at(logp, class))
	loss := picked.loss
	if o.LabelSmoothing > 0 {
		all := logp
		if o.Weight != nil {
			all = all.Mul(classWeights(o.Weight, logits, class))
		}
		rest := all.Sum(class).Neg()
		if picked.ignored != nil {
			rest = picked.ignored.Where(0, rest)
		}
		loss = loss.Mul(1 - o.LabelSmoothing).Add(rest.Mul(spread))
	}
	return picked.reduce(name, loss, o.Reduction)
}

// NLLOptions are the options of [NLLLoss].
type NLLOptions struct {
	Weight      *Tensor // (C): the weight of each class
	IgnoreIndex *int    // targets with this number are ignored; nil ignores none
	Reduction   Reduction
}

// NLLLoss returns -logp at the target's class: logp (N, C, …) or (C), as from
// [Tensor.LogSoftmax], target integers (N, …). See [CrossEntropy].
func NLLLoss(logp, target *Tensor, o NLLOptions) *Tensor {
	const name = "NLLLoss"
	in := given(2, logp, target, o.Weight)
	class := classAxis(name, in, logp, o.Weight)
	defer naming(name, in)
	picked := pickClasses(name, in, logp, target, class, o.Weight, o.IgnoreIndex, at(logp, class))
	return picked.reduce(name, picked.loss, o.Reduction)
}

// at returns -logp at classes.
func at(logp *Tensor, class int) func(classes *Tensor) *Tensor {
	return func(classes *Tensor) *Tensor {
		return logp.Gather(class, classes.Unsqueeze(class)).Squeeze(class).Neg()
	}
}

// widened is wide for a tensor that may be nil.
func widened(t *Tensor) *Tensor {
	if t == nil {
		return nil
	}
	return t.wide()
}

// classAxis checks scores and weights, and returns the axis of the classes.
func classAxis(name string, in []*Tensor, scores, weight *Tensor) int {
	checkOperands(name, in)
	scores.wantFloat(name)
	if len(scores.shape) == 0 {
		failf(name, ErrShape, in, "scores must have shape (N, C, …) or (C)")
	}
	class := min(1, len(scores.shape)-1)
	if weight != nil && !sameShape(weight.shape, scores.shape[class:class+1]) {
		failf(name, ErrShape, in, "the weight has shape %s; want one number for each of %d classes", op.ShapeString(weight.shape), scores.shape[class])
	}
	return class
}

// classWeights makes class weights broadcast against scores.
func classWeights(weight, scores *Tensor, class int) *Tensor {
	shape := make([]int, len(scores.shape)-class)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = weight.shape[0]
	return weight.reshape(shape)
}

// classLoss is the loss of each target, and what a mean must know.
type classLoss struct {
	loss    *Tensor
	weights *Tensor // of each target; nil if all are 1
	ignored *Tensor // true where the target counts nothing; nil if all count
}

// pickClasses returns the loss of the classes that target names, of which each takes
// all of them.
func pickClasses(name string, in []*Tensor, logp, target *Tensor, class int, weight *Tensor, ignore *int, each func(classes *Tensor) *Tensor) classLoss {
	if !target.dtype.IsInt() {
		failf(name, ErrDType, in, "classes are integers, not %s", target.dtype)
	}
	want := append(append([]int{}, logp.shape[:class]...), logp.shape[class+1:]...)
	if !sameShape(target.shape, want) {
		failf(name, ErrShape, in, "target has shape %s; scores %s need classes of shape %s", op.ShapeString(target.shape), op.ShapeString(logp.shape), op.ShapeString(want))
	}
	if target.dtype == Uint8 { // the one type of integers that does not index
		target = target.Cast(Int32)
	}
	var p classLoss
	if ignore != nil {
		p.ignored = target.Eq(*ignore)
		target = p.ignored.Where(0, target) // any class will do
	}
	if ignore == nil {
		defer hint(ErrIndex, fmt.Sprintf("classes are 0 to %d; targets that do not count, such as PyTorch's -100, need the option IgnoreIndex: new(-100)", logp.shape[class]-1))
	}
	p.loss = each(target)
	if weight != nil {
		p.weights = weight.Take(0, target).Cast(p.loss.dtype)
		p.loss = p.loss.Mul(p.weights)
	}
	if p.ignored != nil {
		p.loss = p.ignored.Where(0, p.loss)
	}
	return p
}

// reduce reduces the losses; the mean is weighted.
func (p classLoss) reduce(name string, loss *Tensor, r Reduction) *Tensor {
	if r != ReduceMean || p.weights == nil && p.ignored == nil {
		return r.of(name, loss)
	}
	weights := p.weights
	switch {
	case weights == nil:
		weights = p.ignored.Not().Cast(loss.dtype)
	case p.ignored != nil:
		weights = p.ignored.Where(0, weights)
	}
	return loss.Sum().Div(weights.Sum())
}
