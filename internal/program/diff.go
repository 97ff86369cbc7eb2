package program

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/backend"
)

// Diff compares two traces of one function. It returns "" if both programs are the
// same, else what differs first.
func Diff(a, b *Program) string {
	for i := range min(len(a.Steps), len(b.Steps)) {
		x, y := &a.Steps[i], &b.Steps[i]
		where := fmt.Sprintf("%s at %s", y.Op, y.Site)
		switch {
		case x.Op != y.Op:
			return fmt.Sprintf("%s stands where %s at %s stood", where, x.Op, x.Site)
		case (x.Late == nil) != (y.Late == nil):
			return where + " has numbers that advance in one of both calls only"
		case x.Late == nil && x.Attrs != y.Attrs:
			return fmt.Sprintf("%s has other parameters: %+v, before %+v", where, y.Attrs, x.Attrs)
		case len(x.In) != len(y.In) || len(x.More) != len(y.More):
			return where + " has another number of operands or results"
		}
		for k := range x.In {
			if d := diffRef(a, b, &x.In[k], &y.In[k]); d != "" {
				return fmt.Sprintf("operand %d of %s %s", k, where, d)
			}
		}
		if d := diffRef(a, b, &x.Out, &y.Out); d != "" {
			return fmt.Sprintf("the result of %s %s", where, d)
		}
		for k := range x.More {
			if d := diffRef(a, b, &x.More[k], &y.More[k]); d != "" {
				return fmt.Sprintf("a result of %s %s", where, d)
			}
		}
	}
	switch {
	case len(a.Steps) < len(b.Steps):
		s := &b.Steps[len(a.Steps)]
		return fmt.Sprintf("%s at %s was not there before", s.Op, s.Site)
	case len(a.Steps) > len(b.Steps):
		s := &a.Steps[len(b.Steps)]
		return fmt.Sprintf("%s at %s is no longer there", s.Op, s.Site)
	case len(a.Results) != len(b.Results):
		return "the number of results differs"
	}
	for i := range a.Results {
		if d := diffRef(a, b, &a.Results[i], &b.Results[i]); d != "" {
			return fmt.Sprintf("result %d %s", i, d)
		}
	}
	return ""
}

func diffRef(a, b *Program, x, y *Ref) string {
	v, w := &x.View, &y.View
	switch {
	case x.Value != y.Value:
		return "is another value"
	case v.Bits != w.Bits:
		return "is another number"
	case v.Offset != w.Offset || v.DType != w.DType || !slices.Equal(v.Shape, w.Shape) || !slices.Equal(v.Strides, w.Strides):
		return fmt.Sprintf("has another layout: %s, before %s", described(w), described(v))
	case x.Value < 0:
		return ""
	}
	m, n := &a.Values[x.Value], &b.Values[y.Value]
	switch {
	case m.Kind != n.Kind:
		return fmt.Sprintf("is a value of kind %s, before %s", n.Kind, m.Kind)
	case m.On != n.On:
		return "is on another device"
	case m.Kind == Captured && m.Block != n.Block:
		return "is a tensor from outside, and another one than before: make it an argument of the function"
	case m.Kind == Const && !bytes.Equal(m.Data, n.Data):
		return "was made of other Go numbers than before: make it an argument of the function"
	}
	return ""
}

func described(v *backend.View) string {
	return fmt.Sprintf("%s %v, strides %v from %d", v.DType, v.Shape, v.Strides, v.Offset)
}
