package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Ops of the fused family are defined by a composition of other ops, which
// package locus holds; their kernels exist to be faster or to save memory. A
// backend without one gets the composition.
func init() {
	f := []dtype.Set{dtype.Floats}
	same := func(_ Attrs, in []Spec) (Spec, error) { return in[0], nil }
	pair := func(_ Attrs, in []Spec) (Spec, error) {
		if err := sameDType(in, 0); err != nil {
			return Spec{}, err
		}
		if !slices.Equal(in[0].Shape, in[1].Shape) {
			return Spec{}, Problemf(ErrShape, "operands have shapes %s and %s; they must be equal", ShapeString(in[0].Shape), ShapeString(in[1].Shape))
		}
		return in[0], nil
	}
	define(Def{ID: Softmax, Name: "softmax", Attrs: Axis{}, Family: FusedFamily, Batch: leading, Arity: 1, DTypes: f, Infer: same, Doc: "eˣ/Σeˣ along the axis, without overflow"})
	define(Def{ID: SoftmaxGrad, Name: "softmax_grad", Attrs: Axis{}, Family: FusedFamily, Batch: leading, Arity: 2, DTypes: f, Infer: pair, Doc: "b·(a - Σ a·b) along the axis (a: gradient, b: softmax's result)"})
	define(Def{ID: LogSoftmax, Name: "log_softmax", Attrs: Axis{}, Family: FusedFamily, Batch: leading, Arity: 1, DTypes: f, Infer: same, Doc: "x - logsumexp(x) along the axis"})
	define(Def{ID: LogSoftmaxGrad, Name: "log_softmax_grad", Attrs: Axis{}, Family: FusedFamily, Batch: leading, Arity: 2, DTypes: f, Infer: pair, Doc: "a - eᵇ·Σa along the axis (a: gradient, b: log_softmax's result)"})
	define(Def{ID: Attend, Name: "attention", Attrs: Attention{}, Family: FusedFamily, Batch: leading, Arity: -1, DTypes: []dtype.Set{dtype.Floats, dtype.Floats, dtype.Floats, dtype.Floats | dtype.Bools},
		Doc: "softmax(scale·q·kᵀ + mask)·v: q (…, L, D), k (…, S, D), v (…, S, E), optional mask (…, L, S), float or bool (false: hidden); a fully hidden row gives 0; " +
			"by rows, the result has the last of the leading axes behind L",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			y, err := attentionSpec(in)
			if err == nil && rowsOf(a) {
				return attentionRows(y)
			}
			return y, err
		}, Saves: true,
		More: func(_ Attrs, in []Spec) []Spec { return []Spec{attentionSaves(in)} }})
	define(Def{ID: AttendGrad, Name: "attention_grad", Attrs: Attention{}, Family: FusedFamily, Batch: Batch{Kind: BatchOwn}, Arity: -1,
		DTypes: []dtype.Set{dtype.Floats, dtype.Floats, dtype.Floats, dtype.Floats, dtype.Floats, dtype.Floats, dtype.Floats | dtype.Bools},
		Doc: "attention's gradients for q, k and v, flat, one after the other (operands: gradient, q, k, v, attention's result y, what it saved, perhaps the mask): " +
			"with the weights w and t = w·(g·vᵀ - Σ g·y) they are scale·t·k, scale·tᵀ·q and wᵀ·g; " +
			"by rows, they have one shape (…, H, L, D), and the result is (…, L, 3, H, D)",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if len(in) != 6 && len(in) != 7 {
				return Spec{}, Problemf(ErrArgument, "takes a gradient, q, k, v, a result, what attention saved and perhaps a mask, got %d operands", len(in))
			}
			if err := sameDType(in[:5], 0); err != nil {
				return Spec{}, err
			}
			y, err := attentionSpec(append(slices.Clone(in[1:4]), in[6:]...))
			if err != nil {
				return Spec{}, err
			}
			for _, i := range []int{0, 4} {
				if !slices.Equal(in[i].Shape, y.Shape) {
					return Spec{}, Problemf(ErrShape, "operand %d has shape %s; attention's result has %s", i, ShapeString(in[i].Shape), ShapeString(y.Shape))
				}
			}
			saved := attentionSaves(in[1:4])
			if in[5].DType != saved.DType {
				return Spec{}, Problemf(ErrDType, "operand 5 is %s; attention saves %s", in[5].DType, saved.DType)
			}
			if !slices.Equal(in[5].Shape, saved.Shape) {
				return Spec{}, Problemf(ErrShape, "operand 5 has shape %s; attention saves %s", ShapeString(in[5].Shape), ShapeString(saved.Shape))
			}
			if rowsOf(a) {
				return packedRows(in[1:4])
			}
			return Spec{y.DType, []int{Elements(in[1].Shape) + Elements(in[2].Shape) + Elements(in[3].Shape)}}, nil
		}})
}

// attentionSaves is the spec of the logarithm of Σe^score of each row, +Inf where nothing
// is seen: the gradient recomputes the weights from it. Half precision would lose its
// digits.
func attentionSaves(in []Spec) Spec {
	q, t := in[0].Shape, dtype.Float32
	if in[0].DType == dtype.Float64 {
		t = dtype.Float64
	}
	return Spec{t, slices.Clone(q[:len(q)-1])}
}

func rowsOf(a Attrs) bool {
	attention, ok := a.(Attention)
	return ok && attention.Rows
}

// attentionRows is the spec of a result by rows.
func attentionRows(y Spec) (Spec, error) {
	r := len(y.Shape)
	if r < 3 {
		return Spec{}, Problemf(ErrShape, "a result by rows needs heads: q (…, H, L, D)")
	}
	s := slices.Clone(y.Shape)
	s[r-3], s[r-2] = s[r-2], s[r-3]
	return Spec{y.DType, s}, nil
}

// packedRows is the spec of the gradients of q, k and v by rows.
func packedRows(in []Spec) (Spec, error) {
	q := in[0].Shape
	r := len(q)
	if r < 3 || !slices.Equal(in[1].Shape, q) || !slices.Equal(in[2].Shape, q) {
		return Spec{}, Problemf(ErrShape, "gradients by rows need q, k and v of one shape (…, H, L, D)")
	}
	return Spec{in[0].DType, append(slices.Clone(q[:r-3]), q[r-2], 3, q[r-3], q[r-1])}, nil
}

// attentionSpec is attention's rule: q, k, v and perhaps a mask.
func attentionSpec(in []Spec) (Spec, error) {
	if len(in) != 3 && len(in) != 4 {
		return Spec{}, Problemf(ErrArgument, "takes q, k, v and perhaps a mask, got %d operands", len(in))
	}
	if err := sameDType(in[:3], 0); err != nil {
		return Spec{}, err
	}
	q, k, v := in[0].Shape, in[1].Shape, in[2].Shape
	r := len(q)
	if r < 2 || len(k) != r || len(v) != r || !slices.Equal(q[:r-2], k[:r-2]) || !slices.Equal(q[:r-2], v[:r-2]) ||
		q[r-1] != k[r-1] || k[r-2] != v[r-2] {
		return Spec{}, Problemf(ErrShape, "q %s, k %s and v %s do not fit: want (…, L, D), (…, S, D), (…, S, E)", ShapeString(q), ShapeString(k), ShapeString(v))
	}
	if len(in) == 4 {
		m := in[3]
		if want := append(slices.Clone(q[:r-1]), k[r-2]); !slices.Equal(m.Shape, want) {
			return Spec{}, Problemf(ErrShape, "mask has shape %s; want %s", ShapeString(m.Shape), ShapeString(want))
		}
		if m.DType != dtype.Bool && m.DType != in[0].DType {
			return Spec{}, Problemf(ErrDType, "mask is %s; want bool or %s", m.DType, in[0].DType)
		}
	}
	return Spec{in[0].DType, append(slices.Clone(q[:r-1]), v[r-1])}, nil
}
