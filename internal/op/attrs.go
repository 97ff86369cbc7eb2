package op

import (
	"math/bits"

	"github.com/locusml/locus/dtype"
)

// AxisSet is a set of axes, one bit each.
type AxisSet uint16

// AxesOf makes the set of the given non-negative axes.
func AxesOf(axes ...int) AxisSet {
	var s AxisSet
	for _, a := range axes {
		s |= 1 << a
	}
	return s
}

// AllAxes is the set of the first rank axes.
func AllAxes(rank int) AxisSet { return 1<<rank - 1 }

// Has reports whether axis is in the set.
func (s AxisSet) Has(axis int) bool { return s>>axis&1 == 1 }

// Len is the number of axes.
func (s AxisSet) Len() int { return bits.OnesCount16(uint16(s)) }

// List returns the axes in ascending order.
func (s AxisSet) List() []int {
	l := make([]int, 0, s.Len())
	for i := range MaxRank {
		if s.Has(i) {
			l = append(l, i)
		}
	}
	return l
}

// Dims is a shape (or one number per axis) as a comparable value.
type Dims struct {
	N int
	D [MaxRank]int
}

// DimsOf packs s, which has at most MaxRank entries.
func DimsOf(s []int) Dims {
	d := Dims{N: len(s)}
	copy(d.D[:], s)
	return d
}

// Slice unpacks d.
func (d Dims) Slice() []int { return append(make([]int, 0, d.N), d.D[:d.N]...) }

// Axis is the attribute of ops that work along one axis: ArgMax, ArgMin,
// Softmax, LogSoftmax, CumSum, Gather, Take, ScatterAdd, Scatter, IndexAdd, Concat, ArgSort,
// CumMax, CumMin.
type Axis struct {
	Axis    int  // 0 <= Axis < rank
	Reverse bool // CumSum: from the end; ArgSort: descending
}

// Reduce is the attribute of the reduce family: the axes that become 1.
type Reduce struct{ Axes AxisSet }

// Cast is Cast's attribute.
type Cast struct{ To dtype.DType }

// Create is the attribute of Full and Arange: the result's spec, and for Full
// its value, for Arange the first value and the step. Element i of Arange is
// Start + i·Step, computed in float64 (in int64 for integer types, from IStart and IStep).
type Create struct {
	DType  dtype.DType
	Shape  Dims
	Value  float64 // Full (floats); Arange: start
	Step   float64
	IValue int64 // Full and Arange of integer and bool types
	IStep  int64
}

// Random is the attribute of RandUniform, RandNormal, RandInt and RandBits. Element i is
// number First+i of the key's sequence, so that a part of a tensor can be drawn without
// the rest.
type Random struct {
	DType     dtype.DType
	Shape     Dims
	Key       uint64
	First     uint64
	Low, Span int64 // RandInt: Low + [0, Span)
}

// Keyed are attributes with the key of random numbers. In a compiled function keys
// advance with every run: an op that draws must have such attributes.
type Keyed interface {
	RandomKey() uint64
	WithKey(key uint64) Attrs
}

// RandomKey returns the key.
func (r Random) RandomKey() uint64 { return r.Key }

// WithKey returns the same attributes with another key.
func (r Random) WithKey(key uint64) Attrs {
	r.Key = key
	return r
}

// Shape is the attribute of the views Reshape and Expand: the result's shape.
type Shape struct{ Shape Dims }

// Permute is the attribute of the view Permute: axis i of the result is axis
// Perm[i] of the operand.
type Permute struct{ Perm Dims }

// Slice is the attribute of the view Slice: on each axis the result has Len
// elements, Start, Start+Step, …; Step may be negative, and all are in range.
type Slice struct {
	Start, Len, Step Dims
}

// Diagonal is the attribute of the view Diagonal: the last axis of the result
// runs along the diagonal of axes A and B, which are gone.
type Diagonal struct{ A, B, Offset int }

// Pad is Pad's attribute: before, between and after the elements of each axis
// Low, Interior and High elements of Value are put. None is negative.
type Pad struct {
	Low, High, Interior Dims
	Value               float64
}

// Conv is the attribute of Conv2D, ConvGradInput and ConvGradWeight. All
// describe the forward convolution.
type Conv struct {
	Stride, Pad, Dilation [2]int
	Groups                int
	Size                  [2]int // ConvGradInput: input height and width; ConvGradWeight: kernel's
}

// Pool is the attribute of the pooling ops. Padding never wins a maximum.
type Pool struct {
	Kernel, Stride, Pad, Dilation [2]int // dilation only for max pooling
	CountPad                      bool   // AvgPool: divide by the kernel's size at borders too
	CeilMode                      bool
	Size                          [2]int // AvgPoolGrad: input height and width
}

// Normalize is the attribute of the normalizations and of their gradients.
type Normalize struct {
	// Normalized and its gradient: statistics are computed over the axes from From
	// on, and weight and bias have the axes Params[0] to Params[1]-1 of x, where
	// Params[0] <= From <= Params[1].
	From   int
	Params [2]int
	RMS    bool // nothing is subtracted: there is no mean

	Eps          float64
	Weight, Bias bool // whether they are there

	// BatchNorm: its last operands are a running mean and a running variance, which move
	// by Momentum towards those of the batch.
	Running  bool
	Momentum float64

	GradWeight, GradBias bool // gradients: whether theirs are wanted, as further results
}

// NormEpilogue is an attribute of BatchNorm and BatchNormGrad for images that lie channels
// last, on devices that say that they have it. The result of BatchNorm is then
// Act(batch_norm(x) + the last operand); Act or the last operand may be missing. The
// result of BatchNormGrad is the gradient of Act(batch_norm(x)), and the bias, if there
// is one, is an operand behind the weight.
type NormEpilogue struct {
	Normalize
	Act ID // Relu, Relu6 or Invalid
	Add bool
}

// Attention is the attribute of Attend and AttendGrad.
type Attention struct {
	Scale  float64
	Causal bool

	// Rows lays results out by rows: Attend's is (…, L, H, E) for q (…, H, L, D), and
	// AttendGrad's is (…, L, 3, H, D), for q, k and v of one shape. A projection before
	// or behind the heads then needs no copy.
	Rows bool
}

// Epilogue is the attribute of Linear: the unary op that is applied to the result
// last; Invalid means none. See Activations.
type Epilogue struct{ Act ID }

// ConvEpilogue is the attribute of ConvAct: a convolution and the unary op that is
// applied to its result last, as in Epilogue.
type ConvEpilogue struct {
	Conv
	Act ID
}

// Scales is the attribute of Blend and BlendSquare.
type Scales struct{ A, B float64 }

// Adam is the attribute of AdamStep: the new value is Keep·p - Rate·m/(√v·Root + Eps).
type Adam struct{ Keep, Rate, Root, Eps float64 }

// Rule says what UpdateAll does to a parameter.
type Rule uint8

// The rules.
const (
	SGDRule Rule = iota
	AdamRule
	RMSPropRule
	AdagradRule
)

func (r Rule) String() string {
	return EnumName("Rule", int(r), "sgd", "adam", "rmsprop", "adagrad")
}

// Update is the attribute of UpdateAll. All numbers of a step are here, in one place:
// nothing else changes from step to step but memory.
//
// A gradient g is first multiplied by the factor, if there is one, and then, unless Decay
// is 0, Decay·p is added to it. An average is Beta·old + (1-Beta)·new.
//
//	SGD:      m = Momentum·m + Fresh·g, at first g;      p = Keep·p - Rate·m
//	          without momentum m is g; with Nesterov it is g + Momentum·m in the last formula
//	Adam:     m = average of g by Momentum, v = average of g² by Beta;
//	          p = Keep·p - Rate·m/(√v·Root + Eps)
//	RMSProp:  v = average of g² by Beta; if Centered, a = average of g by Beta;
//	          d = g/(√(v - a²) + Eps); unless Momentum is 0, m = Momentum·m + d, and d is m;
//	          p = Keep·p - Rate·d
//	Adagrad:  s = s + g², at first g² + Start;           p = Keep·p - Rate·g/(√s·Root + Eps)
type Update struct {
	Rule               Rule
	First              bool // what the rule remembers does not exist yet, and is not an operand
	Scaled             bool // the last operand, or the last but one, is the factor
	Gated              bool // the last operand is a bool; where it is false nothing changes
	Nesterov, Centered bool

	Rate, Keep, Decay, Momentum, Fresh, Beta, Root, Eps, Start float64
}

// Slots is how many tensors the rule remembers for each parameter.
func (u Update) Slots() int {
	n := 0
	switch u.Rule {
	case AdamRule:
		return 2
	case AdagradRule:
		return 1
	case RMSPropRule:
		n = 1
		if u.Centered {
			n++
		}
	}
	if u.Momentum != 0 {
		n++
	}
	return n
}

// Each is how many operands there are for each parameter: the parameter, its
// gradient, and what is remembered.
func (u Update) Each() int {
	if u.First {
		return 2
	}
	return 2 + u.Slots()
}

// Extra is how many operands follow the parameters' operands.
func (u Update) Extra() int {
	n := 0
	if u.Scaled {
		n++
	}
	if u.Gated {
		n++
	}
	return n
}
