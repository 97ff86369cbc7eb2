package op

import "github.com/locusml/locus/dtype"

func init() {
	create := func(id ID, name string, attrs Attrs, dtypes dtype.Set, doc string) {
		define(Def{ID: id, Name: name, Attrs: attrs, Family: CreateFamily, Arity: 0, Doc: doc, DTypes: []dtype.Set{dtypes},
			Infer: func(a Attrs, in []Spec) (Spec, error) {
				var s Spec
				switch a := a.(type) {
				case Create:
					s = Spec{a.DType, a.Shape.Slice()}
				case Random:
					s = Spec{a.DType, a.Shape.Slice()}
				default:
					return s, attrError(name, a)
				}
				if !dtypes.Has(s.DType) {
					return s, Problemf(ErrDType, "%s cannot make dtype %s; it makes %s", name, s.DType, dtypes)
				}
				return s, CheckShape(s.Shape)
			}})
	}
	create(Full, "full", Create{}, dtype.Any, "every element the same value")
	create(Arange, "arange", Create{}, dtype.Numbers, "start + i·step")
	create(RandUniform, "rand_uniform", Random{}, dtype.Floats, "uniform in [0, 1), from a key")
	create(RandNormal, "rand_normal", Random{}, dtype.Floats, "standard normal, from a key")
	create(RandInt, "rand_int", Random{}, dtype.Ints, "uniform integers in [low, low+span), from a key")
	create(RandBits, "rand_bits", Random{}, dtype.Set(0).With(dtype.Int64), "63 random bits, never negative, from a key")
}
