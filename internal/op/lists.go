package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Ops on lists of tensors: what would be an op for each parameter, or each gradient,
// of a network is one for all of them. Tensors of a list may have any shapes.
func init() {
	floats := []dtype.Set{dtype.Floats}
	define(Def{ID: UpdateAll, Name: "update_all", Attrs: Update{}, Family: FusedFamily, Batch: Batch{Kind: BatchLoop}, Arity: -1, DTypes: []dtype.Set{dtype.Floats, dtype.Floats.With(dtype.Bool)},
		Doc:   "an optimizer's step: for each parameter p, g and what is remembered become the new p and what is remembered; see Update. A result may lie where the operand that it replaces lies",
		Infer: inferUpdate, More: func(a Attrs, in []Spec) []Spec { return updated(a.(Update), in)[1:] }})
	define(Def{ID: GlobalNorm, Name: "global_norm", Family: FusedFamily, Batch: Batch{Kind: BatchComposed}, Arity: -1, DTypes: floats,
		Doc: "the Euclidean norm of all elements of all operands, a scalar of float64, or of float32 for the smaller types; finite squares do not overflow",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			if err := sameDType(in, 0); err != nil {
				return Spec{}, err
			}
			d := dtype.Float32
			if in[0].DType == dtype.Float64 {
				d = dtype.Float64
			}
			return Spec{DType: d, Shape: []int{}}, nil
		}})
	define(Def{ID: ScaleAll, Name: "scale_all", Family: FusedFamily, Batch: Batch{Kind: BatchComposed}, Arity: -1, DTypes: floats, Parts: true,
		Doc: "each operand but the last, times the last, which has one element",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			if len(in) < 2 {
				return Spec{}, Problemf(ErrArgument, "takes tensors and a factor, got %d operands", len(in))
			}
			if err := sameDType(in, 0); err != nil {
				return Spec{}, err
			}
			return in[0], oneElement("factor", in[len(in)-1])
		},
		More: func(_ Attrs, in []Spec) []Spec { return slices.Clone(in[1 : len(in)-1]) }})
	define(Def{ID: CastAll, Name: "cast_all", Attrs: Cast{}, Family: FusedFamily, Batch: Batch{Kind: BatchComposed}, Arity: -1, DTypes: floats, Parts: true,
		Doc: "each operand, converted to a floating-point type as cast does",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			c, _ := a.(Cast)
			if !c.To.IsFloat() {
				return Spec{}, Problemf(ErrDType, "converts lists to floating-point types, not to %s", c.To)
			}
			return Spec{DType: c.To, Shape: in[0].Shape}, sameDType(in, 0)
		},
		More: func(a Attrs, in []Spec) []Spec {
			l := make([]Spec, len(in)-1)
			for i, s := range in[1:] {
				l[i] = Spec{DType: a.(Cast).To, Shape: s.Shape}
			}
			return l
		}})
}

func oneElement(name string, s Spec) error {
	if Elements(s.Shape) != 1 {
		return Problemf(ErrShape, "the %s has shape %s; want one element", name, ShapeString(s.Shape))
	}
	return nil
}

func inferUpdate(a Attrs, in []Spec) (Spec, error) {
	u, ok := a.(Update)
	if !ok || u.Rule > AdagradRule {
		return Spec{}, Problemf(ErrArgument, "needs a rule")
	}
	if u.Nesterov && (u.Rule != SGDRule || u.Momentum == 0) {
		return Spec{}, Problemf(ErrArgument, "Nesterov needs gradient descent with momentum")
	}
	n := len(in) - u.Extra()
	if n <= 0 || n%u.Each() != 0 {
		return Spec{}, Problemf(ErrArgument, "takes %d operands for each parameter and %d more, got %d", u.Each(), u.Extra(), len(in))
	}
	if u.Gated {
		gate := in[len(in)-1]
		if gate.DType != dtype.Bool {
			return Spec{}, Problemf(ErrDType, "the last operand is %s; want a bool", gate.DType)
		}
		if err := oneElement("bool", gate); err != nil {
			return Spec{}, err
		}
		in = in[:len(in)-1]
	}
	if err := sameDType(in, 0); err != nil {
		return Spec{}, err
	}
	if u.Scaled {
		if err := oneElement("factor", in[n]); err != nil {
			return Spec{}, err
		}
	}
	for i := 0; i < n; i += u.Each() {
		for k := i + 1; k < i+u.Each(); k++ {
			if !slices.Equal(in[i].Shape, in[k].Shape) {
				return Spec{}, Problemf(ErrShape, "operand %d has shape %s, operand %d %s; they must be equal", i, ShapeString(in[i].Shape), k, ShapeString(in[k].Shape))
			}
		}
	}
	return in[0], nil
}

// updated returns the specs of UpdateAll's results: for each parameter the
// parameter's spec and the specs of what is remembered.
func updated(u Update, in []Spec) []Spec {
	var l []Spec
	for i := 0; i+u.Extra() < len(in); i += u.Each() {
		for range 1 + u.Slots() {
			l = append(l, in[i])
		}
	}
	return l
}
