package locus

import (
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// AttentionOptions are the options of [Attention]. With the zero value every position
// attends to every other.
type AttentionOptions struct {
	// Mask broadcasts to (…, L, S): bools, where false masks a position; or floating point,
	// which is added to the scores. The result is 0 where all positions are masked.
	Mask    *Tensor
	Causal  bool    // position i attends only to positions up to i
	Scale   float64 // of the scores; 0 means 1/√D
	Dropout float64 // probability of setting a weight to 0
	Key     Key     // of the dropout
	// Grouped lets several heads of q share one of k and v, on the third axis from
	// the end: their number must be a multiple.
	Grouped bool
}

// Attention returns softmax(scale·q·kᵀ + mask)·v: q (…, L, D), k (…, S, D), v (…,
// S, E), result (…, L, E); leading axes broadcast. For the gradient the operands, the
// result and one number per row are saved, not the L·S weights: those are computed
// again, some at a time, unless the gradient of a mask is asked for or there is dropout.
func Attention(q, k, v *Tensor, o AttentionOptions) *Tensor {
	const name = "Attention"
	in := given(3, q, k, v, o.Mask)
	checkAttention(name, in, q, k, v)
	if o.Grouped {
		return groupedAttention(in, q, k, v, o)
	}
	defer naming(name, in)
	attrs, operands := attentionOperands(name, in, q, k, v, o)
	if o.Dropout == 0 {
		if attrs.Rows = byRows(operands); attrs.Rows {
			return apply(op.Attend, attrs, operands...).Transpose(-3, -2).owned()
		}
		return apply(op.Attend, attrs, operands...)
	}
	if _, err := op.Check(op.Attend, attrs, specs(operands)); err != nil {
		fail(name, err, in...)
	}
	return Checkpoint(func(t ...*Tensor) *Tensor {
		return Dropout(attentionWeights(attrs, t), o.Dropout, o.Key).MatMul(t[2])
	}, operands...)
}

// AttentionWeights returns softmax(scale·q·kᵀ + mask), how much each position attends
// to each other: q (…, L, D), k (…, S, D), result (…, L, S). [Attention] with these options
// multiplies them with v, and does not keep them: they take L·S numbers per head. Rows
// add up to 1, but to 0 where all positions are masked. With dropout the weights are
// those after dropout.
func AttentionWeights(q, k *Tensor, o AttentionOptions) *Tensor {
	const name = "AttentionWeights"
	in := given(2, q, k, o.Mask)
	checkAttention(name, in, q, k, k)
	if o.Grouped {
		if len(q.shape) < 3 || len(k.shape) < 3 || k.Dim(-3) == 0 || q.Dim(-3)%k.Dim(-3) != 0 {
			failf(name, ErrShape, in, "grouped heads need q (…, H, L, D) and k (…, G, S, D) with H a multiple of G")
		}
		k = k.RepeatInterleave(q.Dim(-3)/k.Dim(-3), -3)
	}
	defer naming(name, in)
	attrs, operands := attentionOperands(name, in, q, k, k, o)
	if _, err := op.Check(op.Attend, attrs, specs(operands)); err != nil {
		fail(name, err, in...)
	}
	w := attentionWeights(attrs, operands)
	if o.Dropout != 0 {
		w = Dropout(w, o.Dropout, o.Key)
	}
	return w
}

func checkAttention(name string, in []*Tensor, q, k, v *Tensor) {
	checkOperands(name, in)
	if len(q.shape) < 2 || len(k.shape) < 2 || len(v.shape) < 2 || q.Dim(-1) != k.Dim(-1) || k.Dim(-2) != v.Dim(-2) {
		failf(name, ErrShape, in, "q %s, k %s and v %s do not fit: want (…, L, D), (…, S, D), (…, S, E)",
			op.ShapeString(q.shape), op.ShapeString(k.shape), op.ShapeString(v.shape))
	}
}

// attentionOperands makes the operands of the primitive: leading axes and mask
// are expanded, and the scale is set.
func attentionOperands(name string, in []*Tensor, q, k, v *Tensor, o AttentionOptions) (op.Attention, []*Tensor) {
	batch, err := op.Broadcast(q.shape[:len(q.shape)-2], k.shape[:len(k.shape)-2], v.shape[:len(v.shape)-2])
	if err != nil {
		fail(name, err, in...)
	}
	to := func(t *Tensor) *Tensor { return t.expand(append(slices.Clone(batch), t.shape[len(t.shape)-2:]...)) }
	q, k, v = to(q), to(k), to(v)
	scale := o.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Dim(-1)))
	}
	operands := []*Tensor{q, k, v}
	if o.Mask != nil {
		want := append(slices.Clone(batch), q.Dim(-2), k.Dim(-2))
		if s, err := op.Broadcast(o.Mask.shape, want); err != nil || !sameShape(s, want) {
			failf(name, ErrShape, in, "the mask %s does not broadcast to %s", op.ShapeString(o.Mask.shape), op.ShapeString(want))
		}
		operands = append(operands, o.Mask.expand(want))
	}
	return op.Attention{Scale: scale, Causal: o.Causal}, operands
}

// byRows reports whether the result of an attention should lie as q does: q (…, H, L, D)
// with the heads of each row side by side, as it comes from a projection, to which the
// result goes on then without a copy.
func byRows(operands []*Tensor) bool {
	for _, t := range operands {
		if t.lane != nil {
			return false
		}
	}
	q := operands[0]
	r := len(q.shape)
	return r > 2 && q.dtype.IsFloat() && q.shape[r-3] > 1 && q.strides[r-1] == 1 && q.strides[r-3] == q.shape[r-1] &&
		q.strides[r-2] >= q.shape[r-3]*q.shape[r-1]
}

// packed reports whether q, k and v lie in one tensor (…, L, 3, H, D), as one projection
// makes them.
func packed(q, k, v *Tensor) bool {
	r := len(q.shape)
	if r < 3 || q.block == nil || q.block != k.block || q.block != v.block || !sameShape(q.shape, k.shape) || !sameShape(q.shape, v.shape) ||
		q.lane != nil || k.lane != nil || v.lane != nil {
		return false
	}
	all := op.Strides(slices.Concat(q.shape[:r-3], []int{q.shape[r-2], 3, q.shape[r-3], q.shape[r-1]}))
	want := slices.Concat(all[:r-3], []int{all[r-1], all[r-3], 1})
	for i, t := range []*Tensor{q, k, v} {
		if t.offset != q.offset+i*all[r-2] {
			return false
		}
		for j, s := range t.strides {
			if t.shape[j] > 1 && s != want[j] {
				return false
			}
		}
	}
	return true
}

func specs(ts []*Tensor) []op.Spec {
	l := make([]op.Spec, len(ts))
	for i, t := range ts {
		l[i] = t.spec()
	}
	return l
}

// groupedAttention puts the heads of q that share k and v on an axis of their own,
// along which k and v broadcast.
func groupedAttention(in []*Tensor, q, k, v *Tensor, o AttentionOptions) *Tensor {
	const name = "Attention"
	if len(q.shape) < 3 || len(k.shape) < 3 || len(v.shape) < 3 || k.Dim(-3) != v.Dim(-3) || k.Dim(-3) == 0 || q.Dim(-3)%k.Dim(-3) != 0 {
		failf(name, ErrShape, in, "grouped heads need q (…, H, L, D), k and v (…, G, S, D) with H a multiple of G")
	}
	groups := k.Dim(-3)
	split := func(t *Tensor, n int) *Tensor {
		r := len(t.shape)
		s := append(slices.Clone(t.shape[:r-3]), n, t.shape[r-3]/n)
		return t.reshape(append(s, t.shape[r-2:]...))
	}
	o.Grouped = false
	if m := o.Mask; m != nil && len(m.shape) > 2 {
		n := groups
		if m.Dim(-3) == 1 {
			n = 1
		} else if m.Dim(-3) != q.Dim(-3) {
			failf(name, ErrShape, in, "the mask has %d heads, q %d", m.Dim(-3), q.Dim(-3))
		}
		o.Mask = split(m, n)
	}
	y := Attention(split(q, groups), split(k, groups), split(v, groups), o)
	r := len(y.shape)
	merged := append(slices.Clone(y.shape[:r-4]), y.shape[r-4]*y.shape[r-3])
	return y.reshape(append(merged, y.shape[r-2:]...)).owned()
}

// attentionWeights returns softmax(scale·q·kᵀ + mask) for the operands of the
// attention primitive.
func attentionWeights(p op.Attention, in []*Tensor) *Tensor {
	q, k := in[0], in[1]
	scores := q.Mul(p.Scale).MatMul(k.T())
	if p.Causal {
		l, s := scores.shape[len(scores.shape)-2], scores.shape[len(scores.shape)-1]
		scores = q.beside(causalMask(q.place.device, l, s)).Where(scores, math.Inf(-1))
	}
	if len(in) == 4 {
		if in[3].dtype == Bool {
			scores = in[3].Where(scores, math.Inf(-1))
		} else {
			scores = scores.Add(in[3])
		}
	}
	if scores.shape[len(scores.shape)-1] == 0 {
		return scores
	}
	// A row that sees nothing has no largest score; its weights are 0, not NaN.
	top := scores.detach().MaxKeep(-1)
	top = top.Eq(math.Inf(-1)).Where(0, top)
	e := scores.Sub(top).Exp()
	sum := e.SumKeep(-1)
	return e.Div(sum.Eq(0).Where(1, sum))
}
