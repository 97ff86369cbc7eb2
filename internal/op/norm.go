package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Normalizations. Normalizing rows (layer, group, instance and RMS normalization) is
// one op: they differ in the axes over which statistics are computed, and in the axes
// of weight and bias. Batch normalization is the same for channels, whose elements do
// not lie together, and its statistics are results that programs use.
func init() {
	f := []dtype.Set{dtype.Floats}
	define(Def{ID: Normalized, Name: "normalize", Attrs: Normalize{}, Family: FusedFamily, Batch: normalizing(1), Arity: -1, DTypes: f, Saves: true,
		Doc: "(x - mean)/√(var + eps)·weight + bias over the last axes, var without Bessel's correction, or x/√(mean of x² + eps)·weight + bias; " +
			"operands x, perhaps weight, perhaps bias; saves the mean, if there is one, and 1/√(var + eps), float32 in half precision",
		Infer: func(a Attrs, in []Spec) (Spec, error) { return normSpec(Normalized, a, in) },
		More:  func(a Attrs, in []Spec) []Spec { return a.(Normalize).Stats(Normalized, in[0]) }})
	define(Def{ID: BatchNorm, Name: "batch_norm", Attrs: Normalize{}, Family: FusedFamily, Batch: Batch{Kind: BatchOwn}, Arity: -1, DTypes: f,
		Doc: "(x - mean)/√(var + eps)·weight + bias of each channel, x (N, C, …), var without Bessel's correction; operands x, perhaps weight, perhaps bias, perhaps a running mean and variance; " +
			"further results (C), float32 in half precision: mean and 1/√(var + eps) for the gradient, and for the program the mean again and the variance with Bessel's correction, NaN for one element; " +
			"with running statistics, instead of these two, (1 - momentum)·running + momentum·batch for each",
		Infer: func(a Attrs, in []Spec) (Spec, error) { return normSpec(BatchNorm, a, in) },
		More: func(a Attrs, in []Spec) []Spec {
			stats := a.(Normalize).Stats(BatchNorm, in[0])
			return append(stats, stats...)
		}})
	const grad = "'s gradients for x and, where they are wanted, weight and bias (operands: gradient, x, weight if there is one, mean if there is one, 1/√(var + eps)): " +
		"with x̂ = (x - mean)·rstd and h = g·weight they are rstd·(h - mean(h) - x̂·mean(h·x̂)), or without a mean rstd·(h - x̂·mean(h·x̂)), and Σ g·x̂ and Σ g"
	define(Def{ID: NormalizeGrad, Name: "normalize_grad", Attrs: Normalize{}, Family: FusedFamily, Batch: normalizing(2), Arity: -1, DTypes: f, Parts: true, Doc: "normalize" + grad,
		Infer: func(a Attrs, in []Spec) (Spec, error) { return normGradSpec(Normalized, a, in) },
		More:  func(a Attrs, in []Spec) []Spec { return a.(Normalize).wanted(Normalized, in[1]) }})
	define(Def{ID: BatchNormGrad, Name: "batch_norm_grad", Attrs: Normalize{}, Family: FusedFamily, Batch: Batch{Kind: BatchOwn}, Arity: -1, DTypes: f, Parts: true, Doc: "batch_norm" + grad,
		Infer: func(a Attrs, in []Spec) (Spec, error) { return normGradSpec(BatchNorm, a, in) },
		More:  func(a Attrs, in []Spec) []Spec { return a.(Normalize).wanted(BatchNorm, in[1]) }})
}

// Stats returns the specs of the mean, if there is one, and of 1/√(var + eps) that
// Normalized or BatchNorm makes of x.
func (a Normalize) Stats(id ID, x Spec) []Spec {
	s := Spec{dtype.Float32, nil}
	if x.DType == dtype.Float64 {
		s.DType = dtype.Float64
	}
	if id == BatchNorm {
		s.Shape = slices.Clone(x.Shape[1:2])
	} else {
		s.Shape = slices.Clone(x.Shape[:a.From])
	}
	if a.RMS {
		return []Spec{s}
	}
	return []Spec{s, s}
}

// ParamShape returns the shape of weight and bias.
func (a Normalize) ParamShape(id ID, x []int) []int {
	if id == BatchNorm {
		return slices.Clone(x[1:2])
	}
	return slices.Clone(x[a.Params[0]:a.Params[1]])
}

// wanted returns the specs of the gradients of weight and bias.
func (a Normalize) wanted(id ID, x Spec) (more []Spec) {
	for _, want := range []bool{a.GradWeight, a.GradBias} {
		if want {
			more = append(more, Spec{x.DType, a.ParamShape(id, x.Shape)})
		}
	}
	return more
}

// check checks the attributes against x.
func (a Normalize) check(id ID, x Spec) error {
	rank := len(x.Shape)
	switch {
	case id == BatchNorm && (a.From != 0 || a.Params != [2]int{} || a.RMS):
		return Problemf(ErrArgument, "batch normalization has no axes to choose")
	case id == BatchNorm && rank < 2:
		return Problemf(ErrShape, "x has shape %s; want (N, C, …)", ShapeString(x.Shape))
	case id == Normalized && (a.From < 0 || a.From >= rank):
		return Problemf(ErrAxis, "statistics from axis %d on; x has shape %s", a.From, ShapeString(x.Shape))
	case id == Normalized && (a.Params[0] < 0 || a.Params[0] > a.From || a.From > a.Params[1] || a.Params[1] > rank):
		return Problemf(ErrAxis, "parameters with the axes %d to %d do not fit statistics from axis %d on", a.Params[0], a.Params[1]-1, a.From)
	}
	return nil
}

// param checks the operand i, a weight or bias.
func (a Normalize) param(id ID, x Spec, in []Spec, i int) error {
	if want := a.ParamShape(id, x.Shape); !slices.Equal(in[i].Shape, want) {
		return Problemf(ErrShape, "operand %d, a parameter, has shape %s; want %s", i, ShapeString(in[i].Shape), ShapeString(want))
	}
	return nil
}

// statistics checks the operands from number first on, statistics of x.
func (a Normalize) statistics(id ID, x Spec, in []Spec, first int) error {
	for i, s := range a.Stats(id, x) {
		got := in[first+i]
		if got.DType != s.DType {
			return Problemf(ErrDType, "operand %d, a statistic, is %s; want %s", first+i, got.DType, s.DType)
		}
		if !slices.Equal(got.Shape, s.Shape) {
			return Problemf(ErrShape, "operand %d, a statistic, has shape %s; want %s", first+i, ShapeString(got.Shape), ShapeString(s.Shape))
		}
	}
	return nil
}

// Count returns how many of flags are set.
func Count(flags ...bool) (n int) {
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

// normSpec is the rule of Normalized and BatchNorm.
func normSpec(id ID, attrs Attrs, in []Spec) (Spec, error) {
	a, ok := attrs.(Normalize)
	if !ok {
		return Spec{}, attrError(Get(id).Name, attrs)
	}
	own := 1 + Count(a.Weight, a.Bias) // operands of x's type
	if want := own + 2*Count(a.Running); len(in) != want {
		return Spec{}, Problemf(ErrArgument, "takes %d operands with these attributes, got %d", want, len(in))
	}
	if a.Running && id != BatchNorm || !a.Running && a.Momentum != 0 {
		return Spec{}, Problemf(ErrArgument, "has no running statistics")
	}
	if a.GradWeight || a.GradBias {
		return Spec{}, Problemf(ErrArgument, "asks for gradients")
	}
	if err := sameDType(in[:own], 0); err != nil {
		return Spec{}, err
	}
	if err := a.check(id, in[0]); err != nil {
		return Spec{}, err
	}
	for i := 1; i < own; i++ {
		if err := a.param(id, in[0], in, i); err != nil {
			return Spec{}, err
		}
	}
	if a.Running {
		if err := a.statistics(id, in[0], in, own); err != nil {
			return Spec{}, err
		}
	}
	return in[0], nil
}

// normGradSpec is the rule of their gradients.
func normGradSpec(id ID, attrs Attrs, in []Spec) (Spec, error) {
	a, ok := attrs.(Normalize)
	if !ok {
		return Spec{}, attrError(Get(id).Name+"_grad", attrs)
	}
	own := 2 + Count(a.Weight) // operands of x's type
	if want := own + Count(!a.RMS, true); len(in) != want {
		return Spec{}, Problemf(ErrArgument, "takes %d operands with these attributes, got %d", want, len(in))
	}
	if a.Running || a.Momentum != 0 {
		return Spec{}, Problemf(ErrArgument, "has no running statistics")
	}
	if a.GradWeight && !a.Weight {
		return Spec{}, Problemf(ErrArgument, "asks for the gradient of a weight that is not there")
	}
	if err := sameDType(in[:own], 0); err != nil {
		return Spec{}, err
	}
	g, x := in[0], in[1]
	if !slices.Equal(g.Shape, x.Shape) {
		return Spec{}, Problemf(ErrShape, "operands have shapes %s and %s; they must be equal", ShapeString(g.Shape), ShapeString(x.Shape))
	}
	if err := a.check(id, x); err != nil {
		return Spec{}, err
	}
	if a.Weight {
		if err := a.param(id, x, in, 2); err != nil {
			return Spec{}, err
		}
	}
	if err := a.statistics(id, x, in, own); err != nil {
		return Spec{}, err
	}
	return x, nil
}
