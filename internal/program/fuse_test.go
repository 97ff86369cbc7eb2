package program

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/op"
)

// builder makes programs by hand.
type builder struct{ Program }

func (b *builder) value(kind Kind, t dtype.DType, shape ...int) Ref {
	b.Values = append(b.Values, Value{Kind: kind, Spec: op.Spec{DType: t, Shape: shape}, Bytes: op.Elements(shape) * t.Size()})
	return Ref{Value: len(b.Values) - 1, View: backend.View{DType: t, Shape: shape, Strides: op.Strides(shape)}}
}

// step appends a call; operands are over one shape.
func (b *builder) step(id op.ID, a op.Attrs, in ...Ref) Ref {
	specs := make([]op.Spec, len(in))
	for i := range in {
		specs[i] = op.Spec{DType: in[i].View.DType, Shape: in[i].View.Shape}
	}
	s, err := op.Check(id, a, specs)
	if err != nil {
		panic(err)
	}
	out := b.value(Temp, s.DType, s.Shape...)
	b.Steps = append(b.Steps, Step{Op: id, Attrs: a, In: in, Out: out})
	return out
}

// number is a constant over a shape.
func number(t dtype.DType, bits uint64, shape []int) Ref {
	return Ref{Value: -1, View: backend.View{DType: t, Bits: bits, Shape: shape, Strides: make([]int, len(shape))}}
}

// expand is r broadcast.
func expand(r Ref, shape ...int) Ref {
	strides := make([]int, len(shape))
	for i := range r.View.Shape {
		j := len(shape) - len(r.View.Shape) + i
		if r.View.Shape[i] == shape[j] {
			strides[j] = r.View.Strides[i]
		}
	}
	r.View.Shape, r.View.Strides = shape, strides
	return r
}

func turn(r Ref) Ref {
	r.View.Shape, r.View.Strides = []int{r.View.Shape[1], r.View.Shape[0]}, []int{r.View.Strides[1], r.View.Strides[0]}
	return r
}

func reshape(r Ref, shape ...int) Ref {
	r.View.Shape, r.View.Strides = shape, op.Strides(shape)
	return r
}

var sum = op.Reduce{Axes: op.AxesOf(1)}

func ids(p *Program) (l []string) {
	for i := range p.Steps {
		name := p.Steps[i].Op.String()
		if e, ok := p.Steps[i].Attrs.(*op.Expression); ok {
			name = fmt.Sprintf("%s>%d", e, len(e.Results))
		}
		l = append(l, name)
	}
	return l
}

func TestFuse(t *testing.T) {
	f32 := dtype.Float32
	for _, c := range []struct {
		name  string
		want  []string
		alone string // a reason that is given
		build func(b *builder)
	}{
		{"a chain with a number and a row", []string{"add+exp+mul>1"}, "", func(b *builder) {
			x, row := b.value(Arg, f32, 4, 6), b.value(Arg, f32, 6)
			y := b.step(op.Exp, nil, b.step(op.Add, nil, x, number(f32, 0x40000000, []int{4, 6})))
			b.Results = []Ref{b.step(op.Mul, nil, y, expand(row, 4, 6))}
		}},
		{"a value that the function returns too", []string{"exp+neg>2"}, "", func(b *builder) {
			y := b.step(op.Exp, nil, b.value(Arg, f32, 4, 6))
			b.Results = []Ref{b.step(op.Neg, nil, y), y}
		}},
		{"a reduction between", []string{"exp", "sum", "div"}, "stands between", func(b *builder) {
			y := b.step(op.Exp, nil, b.value(Arg, f32, 4, 6))
			b.Results = []Ref{b.step(op.Div, nil, y, expand(b.step(op.Sum, sum, y), 4, 6))}
		}},
		{"a way round through another group", []string{"neg", "sum", "exp+add>2", "sum", "mul"}, "stands between", func(b *builder) {
			m := b.step(op.Exp, nil, b.value(Arg, f32, 4, 6))
			n := b.step(op.Sum, sum, m)
			g := b.step(op.Neg, nil, b.value(Arg, f32, 4, 6))
			m = b.step(op.Add, nil, m, expand(b.step(op.Sum, sum, g), 4, 6))
			b.Results = []Ref{m, b.step(op.Mul, nil, g, expand(n, 4, 6))}
		}},
		{"a step between that only reads", []string{"exp+neg>2", "sum"}, "", func(b *builder) {
			y := b.step(op.Exp, nil, b.value(Arg, f32, 4, 6))
			s := b.step(op.Sum, sum, y)
			b.Results = []Ref{b.step(op.Neg, nil, y), s}
		}},
		{"another order", []string{"exp", "neg"}, "rows are not contiguous", func(b *builder) {
			y := b.step(op.Exp, nil, b.value(Arg, f32, 4, 6))
			b.Results = []Ref{b.step(op.Neg, nil, turn(y))}
		}},
		{"both orders", []string{"exp", "add"}, "rows are not contiguous", func(b *builder) {
			y := b.step(op.Exp, nil, b.value(Arg, f32, 4, 4))
			b.Results = []Ref{b.step(op.Add, nil, y, turn(y))}
		}},
		{"broadcast of what is computed", []string{"exp", "add"}, "reads the other in another order, or broadcast", func(b *builder) {
			y := b.step(op.Exp, nil, b.value(Arg, f32, 6))
			b.Results = []Ref{b.step(op.Add, nil, b.value(Arg, f32, 4, 6), expand(y, 4, 6))}
		}},
		{"another shape in between", []string{"add+exp+neg>1"}, "", func(b *builder) {
			y := b.step(op.Add, nil, b.value(Arg, f32, 4, 6), expand(b.value(Arg, f32, 6), 4, 6))
			b.Results = []Ref{b.step(op.Neg, nil, b.step(op.Exp, nil, reshape(y, 24)))}
		}},
		{"two shapes that matter", []string{"add", "add"}, "in another order", func(b *builder) {
			y := b.step(op.Add, nil, b.value(Arg, f32, 4, 6), expand(b.value(Arg, f32, 6), 4, 6))
			b.Results = []Ref{b.step(op.Add, nil, reshape(y, 8, 3), expand(b.value(Arg, f32, 3), 8, 3))}
		}},
		{"parameters that change", []string{"exp", "neg"}, "from run to run", func(b *builder) {
			b.Results = []Ref{b.step(op.Neg, nil, b.step(op.Exp, nil, b.value(Arg, f32, 6)))}
			b.Steps[1].Late = func() op.Attrs { return nil }
		}},
		{"types", []string{"cast+exp+gt+where>2"}, "", func(b *builder) {
			x, z := b.value(Arg, dtype.BFloat16, 6), b.value(Arg, f32, 6)
			y := b.step(op.Exp, nil, b.step(op.CastTo, op.Cast{To: f32}, x))
			c := b.step(op.Greater, nil, y, z)
			b.Results = []Ref{c, b.step(op.Where, nil, c, y, z)}
		}},
	} {
		b := &builder{}
		c.build(b)
		before := b.String()
		got := b.Fuse(cpu.Open())
		if err := got.Verify(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Equal(ids(got), c.want) {
			t.Errorf("%s: %v\n%s", c.name, ids(got), got)
		}
		if c.alone != "" && !strings.Contains(got.String(), "not fused: ") || !strings.Contains(got.String(), c.alone) {
			t.Errorf("%s: no word of %q:\n%s", c.name, c.alone, got)
		}
		if b.String() != before {
			t.Errorf("%s: the program itself has changed", c.name)
		}
	}
}

// A group never has more of anything than backends have room for.
func TestFuseIsBounded(t *testing.T) {
	b := &builder{}
	x := b.value(Arg, dtype.Float32, 5)
	for range 100 {
		x = b.step(op.Neg, nil, x)
	}
	for range 100 {
		x = b.step(op.Add, nil, x, b.value(Arg, dtype.Float32, 5))
	}
	for range 100 {
		x = b.step(op.Exp, nil, x)
		b.Results = append(b.Results, x)
	}
	p := b.Fuse(cpu.Open())
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	for i := range p.Steps {
		e, ok := p.Steps[i].Attrs.(*op.Expression)
		if !ok {
			continue
		}
		if len(e.Nodes) > op.FusedNodes || len(e.Inputs) > op.FusedInputs || len(e.Results) > op.FusedResults {
			t.Errorf("%d ops, %d operands, %d results", len(e.Nodes), len(e.Inputs), len(e.Results))
		}
	}
	if len(p.Steps) > 30 {
		t.Errorf("%d steps of 300 are left", len(p.Steps))
	}
	if !strings.Contains(p.String(), "steps in one pass") {
		t.Error("a fused step does not say so")
	}
}
