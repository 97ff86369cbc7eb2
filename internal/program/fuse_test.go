package program

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
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
		{"broadcast of what is computed", []string{"exp", "add"}, "in another order, or broadcast", func(b *builder) {
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

// randomElementwise makes elementwise steps, with some others between, of random types over
// random views.
func randomElementwise(r *rand.Rand, steps int) *Program {
	b := &builder{}
	rows, cols := []int{1, 3, 7, 40}[r.IntN(4)], []int{1, 5, 33, 129, 1027}[r.IntN(5)]
	full := []int{rows, cols}
	others := []int{3, 12, 40}[r.IntN(3)] // one step in so many is not elementwise
	var tensors []Ref                     // over full
	add := func(x Ref) { tensors = append(tensors, x) }
	for _, t := range dtype.All {
		add(b.value(Arg, t, rows, cols))
		add(expand(b.value(Arg, t, cols), rows, cols))
		add(expand(b.value(Arg, t, rows, 1), rows, cols))
		add(expand(b.value(Arg, t, 1, 1), rows, cols))
		add(turn(b.value(Arg, t, cols, rows)))
		wide := b.value(Arg, t, rows, cols+3)
		wide.View.Shape, wide.View.Offset = full, 2
		add(wide)
	}
	var defs []*op.Def
	for _, d := range op.All() {
		if elementwise(d.ID) {
			defs = append(defs, d)
		}
	}
	pick := func(set dtype.Set) (Ref, bool) {
		for range 40 {
			k := len(tensors) - 1 - int(math.Abs(r.NormFloat64())*8) // mostly what was made last
			if r.IntN(4) == 0 || k < 0 {
				k = r.IntN(len(tensors))
			}
			if x := tensors[k]; set.Has(x.View.DType) {
				return x, true
			}
		}
		return Ref{}, false
	}
	for len(b.Steps) < steps {
		if r.IntN(others) == 0 { // not elementwise
			if x, ok := pick(dtype.Floats); ok {
				add(expand(b.step(op.Sum, sum, x), rows, cols))
			}
			continue
		}
		d := defs[r.IntN(len(defs))]
		var a op.Attrs
		if d.ID == op.CastTo {
			a = op.Cast{To: dtype.All[r.IntN(len(dtype.All))]}
		}
		in := make([]Ref, d.Arity)
		ok := true
		for i := range in {
			set := d.Accepts(i)
			if i > d.Leading() {
				set = dtype.Set(0).With(in[d.Leading()].View.DType)
			}
			var found bool
			in[i], found = pick(set)
			ok = ok && found
			if found && i > 0 && i > d.Leading() && r.IntN(5) == 0 {
				in[i] = number(in[i].View.DType, map[int]uint64{1: 1, 2: 0x3f80, 4: 0x40490fdb, 8: 0x4009_21fb_5444_2d18}[in[i].View.DType.Size()], full)
			}
		}
		if !ok {
			continue
		}
		if r.IntN(8) == 0 { // over another shape
			flat := true
			for i := range in {
				flat = flat && (in[i].Value < 0 || in[i].View.Contiguous())
			}
			if flat {
				for i := range in {
					in[i] = over(in[i], []int{rows * cols})
				}
				add(reshape(b.step(d.ID, a, in...), rows, cols))
				continue
			}
		}
		add(b.step(d.ID, a, in...))
	}
	for i := range b.Steps {
		if r.IntN(6) == 0 || i == len(b.Steps)-1 {
			b.Results = append(b.Results, b.Steps[i].Out)
		}
	}
	return &b.Program
}

// fill makes an argument's elements.
func fill(r *rand.Rand, t dtype.DType, data []byte) {
	size := t.Size()
	for i := 0; i+size <= len(data); i += size {
		p := unsafe.Pointer(&data[i])
		x := r.NormFloat64() * []float64{0.1, 1, 20}[r.IntN(3)]
		if r.IntN(50) == 0 {
			x = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, 1, -1}[r.IntN(8)]
		}
		switch t {
		case dtype.Bool:
			data[i] = byte(r.IntN(2))
		case dtype.Uint8:
			data[i] = byte(r.IntN(256))
		case dtype.Int32:
			*(*int32)(p) = int32(r.Uint32()) >> r.IntN(32)
		case dtype.Int64:
			*(*int64)(p) = int64(r.Uint64()) >> r.IntN(64)
		case dtype.Float16:
			*(*dtype.F16)(p) = dtype.ToF16(float32(x))
		case dtype.BFloat16:
			*(*dtype.BF16)(p) = dtype.ToBF16(float32(x))
		case dtype.Float32:
			*(*float32)(p) = float32(x)
		case dtype.Float64:
			*(*float64)(p) = x
		}
	}
}

// results runs a program and returns what it makes.
func results(t testing.TB, p *Program, device backend.Device, args map[int][]byte) [][]byte {
	t.Helper()
	pool := memory.NewPool(device)
	var outside []Binding
	for v, data := range args {
		b, err := pool.Allocate(len(data), func() memory.Label { return memory.Label{} })
		if err != nil {
			t.Fatal(err)
		}
		if err := device.CopyIn(b, data, nil); err != nil {
			t.Fatal(err)
		}
		outside = append(outside, Binding{Value: v, Block: b})
	}
	blocks, err := NewRunner(p, device, pool).Run(outside)
	if err != nil {
		t.Fatal(err)
	}
	var l [][]byte
	for _, r := range p.Results {
		data := make([]byte, size(&r.View))
		if err := device.CopyOut(data, blocks[r.Value], 0); err != nil {
			t.Fatal(err)
		}
		l = append(l, data)
	}
	return l
}

// checkFused compares a random program with what Fuse makes of it, to the bit.
func checkFused(t testing.TB, seed uint64, steps int, devices ...interface {
	backend.Device
	backend.Fuser
}) (fusedSteps int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	p := randomElementwise(r, steps)
	args := map[int][]byte{}
	for i, v := range p.Values {
		if v.Kind == Arg {
			args[i] = make([]byte, v.Bytes)
			fill(r, v.Spec.DType, args[i])
		}
	}
	for _, d := range devices {
		q := p.Fuse(d)
		if err := q.Verify(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, q)
		}
		for i := range q.Steps {
			fusedSteps += len(q.Steps[i].Parts)
		}
		want, got := results(t, p, d, args), results(t, q, d, args)
		for i := range want {
			if !bytes.Equal(want[i], got[i]) {
				t.Fatalf("seed %d: result %d (%%%d) differs\n%s", seed, i, p.Results[i].Value, q)
			}
		}
	}
	return fusedSteps
}

func TestFusedRandomPrograms(t *testing.T) {
	n := 0
	for seed := range uint64(200) {
		n += checkFused(t, seed, 3+int(seed)%60, cpu.Open())
	}
	if n < 1000 {
		t.Errorf("only %d steps were fused", n)
	}
}

func FuzzFuse(f *testing.F) {
	f.Add(uint64(1), uint8(20))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) { checkFused(t, seed, 1+int(steps)%100, cpu.Open()) })
}
