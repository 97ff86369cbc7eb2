package optest

import (
	"reflect"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

type tensor = locus.Tensor

func unary(name string, set dtype.Set, f func(*tensor) *tensor) *Op {
	return &Op{Name: "Tensor." + name, DTypes: set, Run: func(c *Call) []*tensor { return one(f(c.In[0])) }}
}

// unaryOps are the methods of the primitives with one operand, by their descriptions.
func unaryOps() []*Op {
	var ops []*Op
	for _, def := range op.All() {
		name := op.Public(def.Name)
		m, ok := reflect.TypeFor[*tensor]().MethodByName(name)
		if def.Family != op.UnaryFamily || !ok {
			continue
		}
		f, ok := m.Func.Interface().(func(*tensor) *tensor)
		if !ok { // Cast has an argument
			continue
		}
		o := unary(name, def.Accepts(0), f)
		if s, err := op.Check(def.ID, nil, []op.Spec{{DType: def.Accepts(0).List()[0], Shape: []int{1}}}); err == nil && s.DType == dtype.Bool && def.Accepts(0) != dtype.Any {
			o.NoGrad = discrete
		}
		ops = append(ops, o)
	}
	ops = append(ops, &Op{Name: "Tensor.Cast", DTypes: dtype.Any, Run: func(c *Call) []*tensor {
		to, err := dtype.Parse(c.String("to"))
		if err != nil {
			panic(err)
		}
		return one(c.In[0].Cast(to))
	}, Bad: []Bad{{locus.ErrDType, "to no type", func(d locus.Device) { d.Ones(2).Cast(dtype.Invalid) }}}})
	return group("Element by element", ops...)
}

// other is the second operand: a tensor or a Go number.
func other(c *Call) any {
	if c.Has("y") {
		return c.Float("y")
	}
	return c.In[1]
}

func dyadic(name string, set dtype.Set, f func(t *tensor, y any) *tensor) *Op {
	return (&Op{Name: "Tensor." + name, DTypes: set, Run: func(c *Call) []*tensor { return one(f(c.In[0], other(c))) }}).
		bad(locus.ErrShape, "shapes that do not broadcast", func(d locus.Device) {
			m := d.As(set.List()[0])
			f(m.Ones(2, 3), m.Ones(3, 2))
		}).
		bad(locus.ErrDType, "two element types", func(d locus.Device) {
			f(d.As(set.List()[0]).Ones(2), d.As(set.List()[1]).Ones(2))
		}).
		bad(locus.ErrArgument, "an operand that is no number", func(d locus.Device) { f(d.As(set.List()[0]).Ones(2), "1") })
}

// optional returns a number, or nil where the record has none.
func (c *Call) optional(name string) any {
	if !c.Has(name) {
		return nil
	}
	return c.Float(name)
}

func clampOne(name, border string, f func(t *tensor, border any) *tensor) *Op {
	return (&Op{Name: "Tensor." + name, DTypes: dtype.Numbers, Run: func(c *Call) []*tensor {
		if len(c.In) == 2 {
			return one(f(c.In[0], c.In[1]))
		}
		return one(f(c.In[0], c.Float(border)))
	}}).bad(locus.ErrArgument, "no border", func(d locus.Device) { f(d.Ones(2), nil) })
}

func binaryOps() []*Op {
	n, f, i := dtype.Numbers, dtype.Floats, dtype.Integral
	ops := []*Op{
		dyadic("Add", n, (*tensor).Add).
			bad(locus.ErrDType, "a fraction and integers", func(d locus.Device) { d.As(locus.Int64).Ones(2).Add(0.5) }).
			bad(locus.ErrDType, "a Go number that does not fit", func(d locus.Device) { d.As(locus.Uint8).Ones(2).Add(300) }),
		dyadic("Sub", n, (*tensor).Sub),
		dyadic("Mul", n, (*tensor).Mul),
		dyadic("Div", f, (*tensor).Div),
		dyadic("Pow", n, (*tensor).Pow),
		dyadic("Maximum", n, (*tensor).Maximum),
		dyadic("Minimum", n, (*tensor).Minimum),
		dyadic("FloorDiv", n, (*tensor).FloorDiv),
		dyadic("Mod", n, (*tensor).Mod),
		dyadic("Fmod", n, (*tensor).Fmod),
		dyadic("LogAddExp", f, (*tensor).LogAddExp),
		dyadic("Atan2", f, (*tensor).Atan2),
	}
	for _, o := range []*Op{
		dyadic("And", i, (*tensor).And),
		dyadic("Or", i, (*tensor).Or),
		dyadic("Xor", i, (*tensor).Xor),
		dyadic("Eq", dtype.Any, (*tensor).Eq),
		dyadic("Ne", dtype.Any, (*tensor).Ne),
		dyadic("Lt", n, (*tensor).Lt),
		dyadic("Le", n, (*tensor).Le),
		dyadic("Gt", n, (*tensor).Gt),
		dyadic("Ge", n, (*tensor).Ge),
	} {
		o.NoGrad = discrete
		ops = append(ops, o)
	}
	// x and y of where, each a tensor or a Go number.
	choices := func(c *Call) (x, y any) {
		rest := c.In[1:]
		next := func(name string) any {
			if len(c.In) == 1 { // two Go numbers, whose types count
				return c.number(name)
			}
			if c.Has(name) {
				return c.Float(name)
			}
			t := rest[0]
			rest = rest[1:]
			return t
		}
		return next("x"), next("y")
	}
	whereBad := []Bad{
		{locus.ErrDType, "a condition that is not bool", func(d locus.Device) { d.Ones(2).Where(d.Ones(2), 0) }},
		{locus.ErrDType, "two element types", func(d locus.Device) {
			d.As(locus.Bool).Ones(2).Where(d.Ones(2), d.As(locus.Int64).Ones(2))
		}},
		{locus.ErrShape, "shapes that do not broadcast", func(d locus.Device) { d.As(locus.Bool).Ones(2).Where(d.Ones(3), 0) }},
		{locus.ErrArgument, "what is no number", func(d locus.Device) { d.As(locus.Bool).Ones(2).Where("1", 0) }},
		{locus.ErrDType, "a bool and a number", func(d locus.Device) { d.As(locus.Bool).Ones(2).Where(true, 0) }},
	}
	ops = append(ops,
		&Op{Name: "Tensor.Where", DTypes: dtype.Any, Bad: whereBad, Run: func(c *Call) []*tensor { return one(c.In[0].Where(choices(c))) }},
		&Op{Name: "Where", DTypes: dtype.Any, Bad: whereBad, Run: func(c *Call) []*tensor {
			x, y := choices(c)
			return one(locus.Where(c.In[0], x, y))
		}},
		&Op{Name: "Tensor.Clamp", DTypes: n, Run: func(c *Call) []*tensor {
			switch {
			case len(c.In) == 3:
				return one(c.In[0].Clamp(c.In[1], c.In[2]))
			case c.Bool("low"):
				return one(c.In[0].Clamp(c.In[1], nil))
			case c.Bool("high"):
				return one(c.In[0].Clamp(nil, c.In[1]))
			}
			return one(c.In[0].Clamp(c.optional("lo"), c.optional("hi")))
		}, Bad: []Bad{{locus.ErrArgument, "no border", func(d locus.Device) { d.Ones(2).Clamp(nil, nil) }}}},
		clampOne("ClampMin", "lo", (*tensor).ClampMin),
		clampOne("ClampMax", "hi", (*tensor).ClampMax),
		(&Op{Name: "Tensor.MaskedFill", DTypes: dtype.Any, Run: func(c *Call) []*tensor {
			if len(c.In) == 3 {
				return one(c.In[0].MaskedFill(c.In[1], c.In[2]))
			}
			return one(c.In[0].MaskedFill(c.In[1], c.Float("value")))
		}}).
			bad(locus.ErrDType, "a mask that is not bool", func(d locus.Device) { d.Ones(2).MaskedFill(d.Ones(2), 0) }).
			bad(locus.ErrShape, "a mask that is larger", func(d locus.Device) { d.Ones(2).MaskedFill(d.As(locus.Bool).Ones(3, 2), 0) }),
		(&Op{Name: "Tensor.IsClose", DTypes: dtype.Any, NoGrad: discrete, Run: func(c *Call) []*tensor {
			return one(c.In[0].IsClose(other(c), c.Float("rtol"), c.Float("atol")))
		}}).
			bad(locus.ErrArgument, "a negative tolerance", func(d locus.Device) { d.Ones(2).IsClose(1, -1, 0) }),
	)
	return group("Two operands and choices", ops...)
}
