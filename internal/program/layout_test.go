package program

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// saver is the CPU as a device that gains something from convolutions channels last.
type saver struct {
	*cpu.Device
	bytes int
}

func (s saver) Arranges(c *backend.Call) (bool, int) {
	can, _ := s.Device.Arranges(c)
	if _, conv := c.Attrs.(op.Conv); conv && can {
		return true, s.bytes
	}
	return can, 0
}

var same3 = op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}

// runCPU runs a program and returns its results' bytes.
func runCPU(t *testing.T, p *Program, args map[int][]byte) (l [][]byte) {
	t.Helper()
	d := cpu.Open()
	pool := memory.NewPool(d)
	var outside []Binding
	for v, data := range args {
		b, err := pool.Allocate(len(data), func() memory.Label { return memory.Label{} })
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CopyIn(b, data, nil); err != nil {
			t.Fatal(err)
		}
		outside = append(outside, Binding{Value: v, Block: b})
	}
	blocks, err := NewExecutor(p, nil, d, pool).Run(outside, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Results {
		data := make([]byte, size(&r.View))
		if err := d.CopyOut(data, blocks[r.Value], 0); err != nil {
			t.Fatal(err)
		}
		l = append(l, data)
	}
	return l
}

// near reports whether two lists of float32 are the same up to roundings.
func near(a, b []byte) bool {
	for k := 0; k < len(a); k += 4 {
		x, y := math.Float32frombits(binary.LittleEndian.Uint32(a[k:])), math.Float32frombits(binary.LittleEndian.Uint32(b[k:]))
		if !(math.Abs(float64(x-y)) <= 1e-5) {
			return false
		}
	}
	return len(a) == len(b)
}

// check arranges and fuses a program, and makes sure that it computes the same: to the
// bit, but for normalizations, whose sums are not exact.
func check(t *testing.T, p *Program, d saver) *Program {
	t.Helper()
	before := p.String()
	q := p.Arrange(d).EndNorms(d).Fuse(d.Device)
	if p.String() != before {
		t.Error("the program itself was changed")
	}
	if err := q.Verify(); err != nil {
		t.Fatalf("%v\n%s", err, q)
	}
	r := rand.New(rand.NewPCG(1, 2))
	args := map[int][]byte{}
	for i, v := range p.Values {
		if v.Kind != Temp {
			args[i] = make([]byte, v.Bytes)
			for k := 0; k < v.Bytes; k += 4 { // small whole numbers: sums are exact in any order
				copy(args[i][k:], []byte{0, 0, []byte{0, 0x80, 0}[r.IntN(3)], []byte{0x3f, 0x40, 0xc0}[r.IntN(3)]})
			}
		}
	}
	want, got := runCPU(t, p, args), runCPU(t, q, args)
	for i := range want {
		if !slices.Equal(want[i], got[i]) && !near(want[i], got[i]) {
			t.Errorf("result %d differs\n%s", i, q)
		}
	}
	return q
}

// A region is turned where that saves more bytes than conversions cost, and as a whole.
func TestArrange(t *testing.T) {
	f32 := dtype.Float32
	b := &builder{}
	x, w, v := b.value(Arg, f32, 2, 3, 5, 4), b.value(State, f32, 6, 3, 3, 3), b.value(State, f32, 6, 6, 3, 3)
	bias := expand(reshape(b.value(State, f32, 6), 6, 1, 1), 2, 6, 5, 4)
	y := b.step(op.Relu, nil, b.step(op.Add, nil, b.step(op.Conv2D, same3, x, w), bias))
	z := b.step(op.Conv2D, same3, y, v)
	both := b.step(op.Concat, op.Axis{Axis: 1}, y, z)
	part := both // channels 3 to 7
	part.View.Shape, part.View.Offset = []int{2, 5, 5, 4}, 3*20
	squared := b.step(op.Square, nil, part)
	sums := b.step(op.Sum, op.Reduce{Axes: op.AxesOf(0, 2, 3)}, squared)
	flat := b.step(op.Neg, nil, reshape(both, 2, 12*20))
	b.Results = []Ref{sums, flat, z}
	p := &b.Program

	cost := size(&x.View) + size(&w.View) + size(&v.View) + size(&both.View) + size(&z.View)
	for _, c := range []struct {
		bytes  int
		turned bool
	}{{0, false}, {cost / 2, false}, {cost/2 + 1, true}} {
		q := check(t, p, saver{cpu.Open(), c.bytes})
		if got := strings.Contains(q.String(), "channels last"); got != c.turned {
			t.Errorf("%d bytes are saved by each of two, %d are the cost: channels last is %t\n%s", c.bytes, cost, got, q)
		}
	}
	q := check(t, p, saver{cpu.Open(), cost})
	// The filters in one go, the argument; then what is returned or read in another order.
	want := []string{"cast_all", "copy", "conv2d", "add+relu>1", "conv2d", "copy", "concat", "square", "sum", "copy", "neg"}
	if got := ids(q); !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v\n%s", got, want, q)
	}
	for _, r := range q.Results {
		if !r.View.Contiguous() || r.View.Offset != 0 {
			t.Errorf("a result lies as %v", r.View.Strides)
		}
	}
	defer layout.Set(layout.Set(layout.Never))
	if p.Arrange(saver{cpu.Open(), cost}) != p {
		t.Error("it was turned although that is off")
	}
}

// Gradients of filters are put in order in one go where they are read together.
func TestArrangeFilterGradients(t *testing.T) {
	f32 := dtype.Float32
	b := &builder{}
	x, g := b.value(Arg, f32, 2, 3, 5, 4), b.value(Arg, f32, 2, 6, 5, 4)
	attrs := same3
	attrs.Size = [2]int{3, 3}
	a, c := b.step(op.ConvGradWeight, attrs, g, x), b.step(op.ConvGradWeight, attrs, x, g)
	norm := b.step(op.GlobalNorm, nil, a, c)
	half := b.step(op.CastAll, op.Cast{To: dtype.Float64}, a)
	b.Results = []Ref{norm, half}
	q := check(t, &b.Program, saver{cpu.Open(), 1 << 20})
	want := []string{"copy", "copy", "conv2d_grad_weight", "conv2d_grad_weight", "cast_all", "global_norm", "cast_all"}
	if got := ids(q); !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v\n%s", got, want, q)
	}
}

// norm appends a batch normalization with its statistics.
func (b *builder) norm(x Ref) Ref {
	c := x.View.Shape[1]
	y := b.step(op.BatchNorm, op.Normalize{Eps: 1e-5}, x)
	for range 4 {
		s := &b.Steps[len(b.Steps)-1]
		s.More = append(s.More, b.value(Temp, x.View.DType, c))
	}
	return y
}

// A normalization takes over a sum and an activation behind it, unless somebody else needs
// what lies between, or what is added is not there yet.
func TestEndNorms(t *testing.T) {
	defer layout.Set(layout.Set(layout.Always))
	d := saver{cpu.Open(), 0}
	for _, c := range []struct {
		name string
		make func(b *builder, x, r Ref) []Ref
		want []string
	}{
		{"an activation", func(b *builder, x, r Ref) []Ref {
			return []Ref{b.step(op.Sum, sum, b.step(op.Relu, nil, b.norm(x)))}
		}, []string{"batch_norm relu"}},
		{"a sum", func(b *builder, x, r Ref) []Ref {
			r = b.step(op.Square, nil, r)
			return []Ref{b.step(op.Sum, sum, b.step(op.Add, nil, r, b.norm(x)))}
		}, []string{"batch_norm + "}},
		{"both", func(b *builder, x, r Ref) []Ref {
			r = b.step(op.Square, nil, r)
			return []Ref{b.step(op.Sum, sum, b.step(op.Relu6, nil, b.step(op.Add, nil, b.norm(x), r)))}
		}, []string{"batch_norm + relu6"}},
		{"two normalizations", func(b *builder, x, r Ref) []Ref {
			return []Ref{b.step(op.Sum, sum, b.step(op.Relu, nil, b.step(op.Add, nil, b.norm(x), b.norm(r))))}
		}, []string{"batch_norm", "batch_norm + relu"}},
		{"read by another", func(b *builder, x, r Ref) []Ref {
			y := b.norm(x)
			return []Ref{b.step(op.Sum, sum, b.step(op.Relu, nil, y)), b.step(op.Sum, sum, y)}
		}, []string{"batch_norm"}},
		{"a result", func(b *builder, x, r Ref) []Ref {
			y := b.norm(x)
			return []Ref{b.step(op.Sum, sum, b.step(op.Relu, nil, y)), y}
		}, []string{"batch_norm"}},
		{"twice the same", func(b *builder, x, r Ref) []Ref {
			y := b.norm(x)
			return []Ref{b.step(op.Sum, sum, b.step(op.Add, nil, y, y))}
		}, []string{"batch_norm"}},
		{"added too late", func(b *builder, x, r Ref) []Ref {
			y := b.norm(x)
			return []Ref{b.step(op.Sum, sum, b.step(op.Relu, nil, b.step(op.Add, nil, y, b.step(op.Square, nil, r))))}
		}, []string{"batch_norm"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &builder{}
			x, r := b.value(Arg, dtype.Float32, 2, 4, 3, 5), b.value(Arg, dtype.Float32, 2, 4, 3, 5)
			b.Results = c.make(b, x, r)
			var got []string
			for _, s := range check(t, &b.Program, d).Steps {
				if s.Op != op.BatchNorm {
					continue
				}
				name := s.Op.String()
				if e, ok := s.Attrs.(op.NormEpilogue); ok {
					if e.Add {
						name += " +"
					}
					if name += " "; e.Act != op.Invalid {
						name += e.Act.String()
					}
				}
				got = append(got, name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
