package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Portable is a program as it is in a file: free of devices, memory and source code.
// Values are numbered in the order in which they come: arguments, weights, and the
// results of steps. Each lies in order and without holes in memory of its own.
type Portable struct {
	Locus   string // the version that wrote it
	Args    []op.Spec
	Weights []Weight
	Steps   []PortableStep
	Results []Ref

	Values []op.Spec // of all values, by Check
}

// Weight is a tensor that belongs to the program.
type Weight struct {
	Name string
	op.Spec
}

// PortableStep is a call of a primitive.
type PortableStep struct {
	Op    op.ID
	Attrs op.Attrs
	Saves bool // what the op saves for its gradient is a result too
	In    []Ref
}

// EmptyValue stands for any tensor without elements, which needs no memory. Of its view
// only element type and shape count.
const EmptyValue = -2

// The most steps, operands of a step and results of a program in a file.
const (
	maxSteps    = 1 << 17
	maxOperands = 1 << 14
	maxArgs     = 1 << 14
)

// Makes returns how many values a step makes, of which op.CheckStrict has returned all.
func (s *PortableStep) Makes(all []op.Spec) []op.Spec {
	if op.Get(s.Op).Saves && !s.Saves {
		return all[:1]
	}
	return all
}

// Check makes sure that everything in p fits together, so that whoever runs it can trust
// the sizes, and notes the values' specs. It trusts nothing.
func (p *Portable) Check() error {
	p.Values = p.Values[:0]
	if len(p.Args) > maxArgs || len(p.Results) > maxArgs || len(p.Steps) > maxSteps {
		return fmt.Errorf("it has %d arguments, %d steps and %d results, which is too much", len(p.Args), len(p.Steps), len(p.Results))
	}
	for i, a := range p.Args {
		if err := checkSpec(a); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
		p.Values = append(p.Values, a)
	}
	for _, w := range p.Weights {
		if err := checkSpec(w.Spec); err != nil {
			return fmt.Errorf("weight %.40q: %w", w.Name, err)
		}
		p.Values = append(p.Values, w.Spec)
	}
	for i := range p.Steps {
		if err := p.checkStep(&p.Steps[i]); err != nil {
			return fmt.Errorf("step %d (%s): %w", i, p.Steps[i].Op, err)
		}
	}
	for i := range p.Results {
		if p.Results[i].Value == -1 {
			return fmt.Errorf("result %d is a number, not a tensor", i)
		}
		if err := p.checkRef(&p.Results[i]); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	return nil
}

func checkSpec(s op.Spec) error {
	if !s.DType.Valid() {
		return op.Problemf(op.ErrDType, "an element type that does not exist")
	}
	return op.CheckSizes(s.Shape)
}

func (p *Portable) checkStep(s *PortableStep) error {
	if !op.Portable(s.Op) {
		return op.Problemf(op.ErrArgument, "it is not an op that a program in a file may have")
	}
	if len(s.In) > maxOperands {
		return op.Problemf(op.ErrArgument, "%d operands", len(s.In))
	}
	def := op.Get(s.Op)
	first := slices.IndexFunc(s.In, func(r Ref) bool { return r.Value != -1 })
	if first < 0 && len(s.In) > 0 {
		return op.Problemf(op.ErrArgument, "all operands are numbers")
	}
	specs := make([]op.Spec, len(s.In))
	for i := range s.In {
		r := &s.In[i]
		if err := p.checkRef(r); err != nil {
			return fmt.Errorf("operand %d: %w", i, err)
		}
		specs[i] = op.Spec{DType: r.View.DType, Shape: r.View.Shape}
		if r.Value == -1 {
			if !def.Broadcasts() {
				return op.Problemf(op.ErrArgument, "operand %d is a number", i)
			}
			specs[i].Shape = s.In[first].View.Shape
		}
	}
	all, err := op.CheckStrict(s.Op, s.Attrs, specs)
	if err != nil {
		return err
	}
	all = s.Makes(all)
	for _, r := range all[1:] { // an op without a first result is not run, and would leave the others unset
		if op.Elements(all[0].Shape) == 0 && op.Elements(r.Shape) > 0 {
			return op.Problemf(op.ErrShape, "its first result, of shape %s, has no elements", op.ShapeString(all[0].Shape))
		}
	}
	p.Values = append(p.Values, all...)
	return nil
}

// checkRef makes sure that a tensor lies within its value.
func (p *Portable) checkRef(r *Ref) error {
	v := &r.View
	if err := checkSpec(op.Spec{DType: v.DType, Shape: v.Shape}); err != nil {
		return err
	}
	switch {
	case r.Value == -1:
		if bits := 8 * v.DType.Size(); bits < 64 && v.Bits>>bits != 0 || v.DType.String() == "bool" && v.Bits > 1 {
			return op.Problemf(op.ErrArgument, "%x is not a %s", v.Bits, v.DType)
		}
		return nil
	case r.Value == EmptyValue:
		if v.Elements() != 0 {
			return op.Problemf(op.ErrShape, "shape %s has elements, which lie nowhere", op.ShapeString(v.Shape))
		}
		return nil
	case r.Value < 0 || r.Value >= len(p.Values):
		return op.Problemf(op.ErrArgument, "there is no value %d before it", r.Value)
	case v.DType != p.Values[r.Value].DType:
		return op.Problemf(op.ErrDType, "value %d is %s, not %s", r.Value, p.Values[r.Value].DType, v.DType)
	case len(v.Strides) != len(v.Shape):
		return op.Problemf(op.ErrShape, "%d strides for %d axes", len(v.Strides), len(v.Shape))
	}
	n := op.Elements(p.Values[r.Value].Shape)
	low, high, ok := extent(v, n)
	if !ok || low < 0 || high > n {
		return op.Problemf(op.ErrIndex, "shape %s, strides %v and offset %d lead out of value %d of %d elements", op.ShapeString(v.Shape), v.Strides, v.Offset, r.Value, n)
	}
	return nil
}

// extent returns the first element of a view, and one behind the last, in memory. It
// reports false if they are further apart than n elements. Nothing overflows: n is a
// number of elements.
func extent(v *backend.View, n int) (low, high int, ok bool) {
	if v.Offset < 0 || v.Offset > n {
		return 0, 0, false
	}
	if v.Elements() == 0 {
		return v.Offset, v.Offset, true
	}
	low, high = v.Offset, v.Offset
	for i, size := range v.Shape {
		step := v.Strides[i]
		if size == 1 || step == 0 {
			continue
		}
		if step > n || step < -n || size-1 > n/max(step, -step) {
			return 0, 0, false
		}
		if step > 0 {
			high += (size - 1) * step
		} else {
			low += (size - 1) * step
		}
	}
	return low, high + 1, true
}

// Span returns where the elements of a view that is known to be sound begin and end in
// memory.
func Span(v *backend.View) (low, high int) {
	low, high = v.Offset, v.Offset
	if v.Elements() == 0 {
		return low, high
	}
	for i, size := range v.Shape {
		if d := (size - 1) * v.Strides[i]; d > 0 {
			high += d
		} else {
			low += d
		}
	}
	return low, high + 1
}

// Whole reports whether r is all of its value, as it is.
func (p *Portable) Whole(r *Ref) bool {
	return r.Value >= 0 && r.View.Offset == 0 && slices.Equal(r.View.Shape, p.Values[r.Value].Shape) && r.View.Contiguous()
}

// Temporary returns the bytes of all values that a run computes, which is more than it
// needs at any time. Operands that repeat elements count as far as they are larger than
// their value: a kernel may lay them out.
func (p *Portable) Temporary() (bytes float64) {
	size := func(shape []int, d dtype.DType) float64 { return float64(op.Elements(shape)) * float64(d.Size()) }
	for _, v := range p.Values[len(p.Args)+len(p.Weights):] {
		bytes += size(v.Shape, v.DType)
	}
	for i := range p.Steps {
		for _, r := range p.Steps[i].In {
			if r.Value >= 0 {
				bytes += max(0, size(r.View.Shape, r.View.DType)-size(p.Values[r.Value].Shape, r.View.DType))
			}
		}
	}
	return bytes
}

// String lists the program, a line per step.
func (p *Portable) String() string {
	var b strings.Builder
	spec := func(s op.Spec) string { return s.DType.String() + " " + op.ShapeString(s.Shape) }
	for i, a := range p.Args {
		fmt.Fprintf(&b, "%%%d = argument %s\n", i, spec(a))
	}
	for i, w := range p.Weights {
		fmt.Fprintf(&b, "%%%d = weight %s %q\n", len(p.Args)+i, spec(w.Spec), w.Name)
	}
	refs := func(l []Ref) string {
		list := make([]string, len(l))
		for i := range l {
			r := &l[i]
			switch {
			case r.Value == -1:
				list[i] = fmt.Sprintf("%s#%x", r.View.DType, r.View.Bits)
			case r.Value == EmptyValue:
				list[i] = "empty " + op.ShapeString(r.View.Shape)
			case p.Whole(r):
				list[i] = fmt.Sprintf("%%%d", r.Value)
			default:
				list[i] = fmt.Sprintf("%%%d%v/%v+%d", r.Value, r.View.Shape, r.View.Strides, r.View.Offset)
			}
		}
		return strings.Join(list, ", ")
	}
	at := len(p.Args) + len(p.Weights)
	for i := range p.Steps {
		s := &p.Steps[i]
		n := p.made(s)
		for k := range n {
			if k > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%%%d:%s", at, spec(p.Values[at]))
			at++
		}
		fmt.Fprintf(&b, " = %s(%s)", s.Op, refs(s.In))
		if s.Attrs != nil {
			fmt.Fprintf(&b, " %+v", s.Attrs)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "return %s\n", refs(p.Results))
	return b.String()
}

// made counts the values of a step of a program that was checked.
func (p *Portable) made(s *PortableStep) int {
	specs := make([]op.Spec, len(s.In))
	for i := range s.In {
		specs[i] = op.Spec{DType: s.In[i].View.DType, Shape: s.In[i].View.Shape}
	}
	if def := op.Get(s.Op); def.More == nil || def.Saves && !s.Saves {
		return 1
	}
	return 1 + len(op.Get(s.Op).More(s.Attrs, specs))
}
