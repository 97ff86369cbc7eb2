package locus

import "github.com/locusml/locus/internal/op"

// Ops on lists of tensors: one launch for all of them, where one for each would cost
// more than its arithmetic.

// alike groups the tensors of a list that one op can take together: on one device, of
// one type, and with their results in one scope. It returns their positions, without
// those of nil.
func alike(name string, ts []*Tensor) [][]int {
	type kind struct {
		place *place
		dtype DType
		scope *Scope
	}
	var groups [][]int
	found := map[kind]int{}
	for i, t := range ts {
		if t == nil {
			continue
		}
		t.check(name)
		k := kind{t.place, t.dtype, scopeOf([]*Tensor{t})}
		g, ok := found[k]
		if !ok {
			g = len(groups)
			found[k], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// ScaleAll multiplies every tensor by factor, which has one element and is converted
// to the tensors' type, in one launch per element type. Entries that are nil
// stay nil.
func ScaleAll(ts []*Tensor, factor *Tensor) []*Tensor {
	const name = "ScaleAll"
	in := given(0, ts...)
	checkOperands(name, append(in, factor))
	for _, t := range append(in, factor) {
		t.wantFloat(name)
	}
	if factor.Len() != 1 {
		failf(name, ErrShape, []*Tensor{factor}, "the factor has shape %s; want one element", op.ShapeString(factor.shape))
	}
	out := make([]*Tensor, len(ts))
	for _, at := range alike(name, ts) {
		var list []*Tensor
		var full []int
		for _, i := range at {
			if ts[i].Len() == 0 {
				out[i] = ts[i].Copy()
				continue
			}
			list, full = append(list, ts[i]), append(full, i)
		}
		if len(list) == 0 {
			continue
		}
		for k, t := range applyAll(op.ScaleAll, nil, append(list, factor.Cast(list[0].dtype))...) {
			out[full[k]] = t
		}
	}
	return out
}

// Unscale divides gradients by scale, the factor that the loss was multiplied by, a
// tensor of one element. finite is a tensor of one bool, true if all gradients are
// finite; Unscale does not wait for it. Entries that are nil stay nil. It takes a few
// launches for any number of tensors.
func Unscale(grads []*Tensor, scale *Tensor) (unscaled []*Tensor, finite *Tensor) {
	scale.check("Unscale")
	unscaled = ScaleAll(grads, scale.Reciprocal())
	return unscaled, GlobalNorm(unscaled).IsFinite()
}

// CastAll converts every tensor to the floating-point type d, in one launch per element
// type. It does what t.Cast(d) does for each: tensors that have the type already are
// returned as they are, gradients flow through it, and entries that are nil stay nil.
func CastAll(ts []*Tensor, d DType) []*Tensor {
	const name = "CastAll"
	out := make([]*Tensor, len(ts))
	cast := op.Cast{To: d}
	for _, at := range alike(name, ts) {
		first := ts[at[0]]
		first.wantFloat(name)
		if !d.IsFloat() {
			failf(name, ErrDType, []*Tensor{first}, "converts to floating-point types, not to %s", d)
		}
		var list []*Tensor
		var full []int
		for _, i := range at {
			if t := ts[i]; t.dtype == d || t.Len() == 0 {
				out[i] = t.Cast(d)
			} else {
				list, full = append(list, t.detach()), append(full, i)
			}
		}
		if len(list) == 0 {
			continue
		}
		for k, t := range applyAll(op.CastAll, cast, list...) {
			if from := ts[full[k]]; tracked([]*Tensor{from}) { // the history of a single cast
				t.node = &node{def: op.Get(op.CastTo), attrs: cast, inputs: []*Tensor{from}, out: t}
			}
			out[full[k]] = t
		}
	}
	return out
}

// contiguousAll returns copies of tensors, without histories, that lie in order: one launch
// per element type where the device can.
func contiguousAll(ts []*Tensor) []*Tensor {
	out := make([]*Tensor, len(ts))
	for _, at := range alike("Contiguous", ts) {
		first := ts[at[0]]
		if len(at) == 1 || !first.place.backend.Supports(op.CastAll, first.dtype) {
			for _, i := range at {
				out[i] = apply(op.Copy, nil, ts[i].detach())
			}
			continue
		}
		list := make([]*Tensor, len(at))
		for k, i := range at {
			list[k] = ts[i].detach()
		}
		for k, t := range applyAll(op.CastAll, op.Cast{To: first.dtype}, list...) {
			out[at[k]] = t
		}
	}
	return out
}

func init() {
	compositions[op.GlobalNorm] = func(_ op.Attrs, in []*Tensor) *Tensor {
		dt := Float32
		if in[0].dtype == Float64 {
			dt = Float64
		}
		var sum *Tensor
		for _, t := range in {
			s := t.wide().Square().Sum().Cast(dt)
			if sum == nil {
				sum = s
			} else {
				sum = sum.Add(s)
			}
		}
		return sum.root(2)
	}
	gradients[op.GlobalNorm] = throughComposition
	compositionsAll[op.ScaleAll] = func(_ op.Attrs, in []*Tensor) (out []*Tensor) {
		n := len(in) - 1
		factor := in[n].reshape([]int{})
		for _, t := range in[:n] {
			out = append(out, t.Mul(factor))
		}
		return out
	}
	compositionsAll[op.CastAll] = func(a op.Attrs, in []*Tensor) (out []*Tensor) {
		for _, t := range in {
			out = append(out, t.Cast(a.(op.Cast).To))
		}
		return out
	}
}
