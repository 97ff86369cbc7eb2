package locus

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// naiveAttention is the definition, for one matrix each of q, k and v.
func naiveAttention(q, k, v *Tensor, scale float64, seen func(i, j int) bool, extra func(i, j int) float64) []float64 {
	var out []float64
	for i := range q.Dim(0) {
		weights := make([]float64, k.Dim(0))
		sum := 0.0
		for j := range weights {
			if seen(i, j) {
				weights[j] = math.Exp(scale*q.Index(i).Dot(k.Index(j)).Item() + extra(i, j))
				sum += weights[j]
			}
		}
		for e := range v.Dim(1) {
			x := 0.0
			for j, w := range weights {
				if sum > 0 {
					x += w / sum * v.Index(j, e).Item()
				}
			}
			out = append(out, x)
		}
	}
	return out
}

func TestAttention(t *testing.T) {
	in := randomly([]int{2, 3, 4}, []int{2, 5, 4}, []int{2, 5, 6}, []int{3, 5})
	q, k, v, add := in[0], in[1], in[2], in[3]
	hidden := From([]bool{true, false, true, true, false, false, false, false, false, false, true, true, true, true, true}, 3, 5)
	all, none := func(i, j int) bool { return true }, func(i, j int) float64 { return 0 }
	half := 1 / math.Sqrt(4)
	for name, c := range map[string]struct {
		o     AttentionOptions
		scale float64
		seen  func(i, j int) bool
		extra func(i, j int) float64
	}{
		"plain":          {AttentionOptions{}, half, all, none},
		"scale":          {AttentionOptions{Scale: 2}, 2, all, none},
		"causal":         {AttentionOptions{Causal: true}, half, func(i, j int) bool { return j <= i }, none},
		"bools":          {AttentionOptions{Mask: hidden}, half, func(i, j int) bool { return ToSlice[bool](hidden)[i*5+j] }, none},
		"added":          {AttentionOptions{Mask: add}, half, all, func(i, j int) float64 { return add.Index(i, j).Item() }},
		"columns hidden": {AttentionOptions{Mask: hidden.Narrow(0, 0, 1)}, half, func(i, j int) bool { return ToSlice[bool](hidden)[j] }, none},
		"both":           {AttentionOptions{Mask: hidden, Causal: true}, half, func(i, j int) bool { return j <= i && ToSlice[bool](hidden)[i*5+j] }, none},
	} {
		t.Run(name, func(t *testing.T) {
			y := Attention(q, k, v, c.o)
			hasShape(t, y, 2, 3, 6)
			for b := range 2 {
				want := naiveAttention(q.Index(b), k.Index(b), v.Index(b), c.scale, c.seen, c.extra)
				near(t, y.Index(b), want, 1e-13)
				near(t, Attention(q.Index(b), k.Index(b), v.Index(b), c.o), want, 1e-13)
			}
			f := func(in ...*Tensor) *Tensor { return Attention(in[0], in[1], in[2], c.o) }
			gradGradCheck(t, f, q, k, v)
		})
	}
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return Attention(in[0], in[1], in[2], AttentionOptions{Mask: in[3]}) }, in...)

	// Heads that share keys: head h of 4 uses head h/2 of 2.
	in = randomly([]int{2, 4, 3, 2}, []int{2, 2, 5, 2}, []int{2, 2, 5, 3}, []int{4, 3, 5})
	y := Attention(in[0], in[1], in[2], AttentionOptions{Grouped: true, Mask: in[3]})
	for h := range 4 {
		one := func(t *Tensor, h int) *Tensor { return t.Narrow(1, h, h+1) }
		want := Attention(one(in[0], h), one(in[1], h/2), one(in[2], h/2), AttentionOptions{Mask: in[3].Narrow(0, h, h+1)})
		near(t, one(y, h), ToSlice[float64](want), 1e-14)
	}
	gradCheck(t, func(in ...*Tensor) *Tensor {
		return Attention(in[0], in[1], in[2], AttentionOptions{Grouped: true, Mask: in[3]})
	}, in...)
}

func TestAttentionDropout(t *testing.T) {
	in := randomly([]int{2, 3, 4}, []int{2, 5, 4}, []int{2, 5, 6})
	o := AttentionOptions{Dropout: 0.4, Key: NewKey(8), Causal: true}
	attend := func(in ...*Tensor) *Tensor { return Attention(in[0], in[1], in[2], o) }
	near(t, attend(in...), ToSlice[float64](attend(in...)), 0)
	gradCheck(t, attend, in...) // the gradient drops the same weights again
	// Where v is all ones, a row is the sum of its weights; dropout keeps its mean.
	n := 40
	ones := As(Float64).Ones(1, n, 1)
	flat := As(Float64).Zeros(1, n, 2)
	sum := Attention(flat, flat, ones, AttentionOptions{Dropout: 0.5, Key: NewKey(9)})
	if m := sum.Mean().Item(); math.Abs(m-1) > 0.1 {
		t.Errorf("the weights add up to %v on average; want 1", m)
	}
	if s := sum.Std().Item(); s == 0 {
		t.Error("nothing was dropped")
	}
}

// What is saved for the gradient is the logarithm of each row's sum, only where a
// gradient can be asked for, and it goes with the graph.
func TestAttentionSaves(t *testing.T) {
	for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
		for _, dt := range []DType{Float64, Float32, BFloat16} {
			q, k, v := d.As(dt).Randn(2, 70, 4), d.As(dt).Randn(2, 65, 4), d.As(dt).Randn(2, 65, 3)
			o := AttentionOptions{Scale: 0.5, Mask: d.Arange(70).Reshape(70, 1).Ne(3)}
			if y := Attention(q, k, v, o); y.node != nil {
				t.Errorf("%s %s: something is recorded without a gradient in sight", d, dt)
			}
			leaf := k.RequireGrad()
			y := Attention(q, leaf, v, o)
			saved := y.node.saved[0]
			if want := map[bool]DType{true: Float64, false: Float32}[dt == Float64]; saved.DType() != want {
				t.Errorf("%s: %s saves %s, want %s", d, dt, saved.DType(), want)
			}
			hasShape(t, saved, 2, 70)
			want := ToSlice[float64](q.Cast(Float64).Mul(0.5).MatMul(k.Cast(Float64).T()).LogSumExp(-1))
			want[3], want[73] = math.Inf(1), math.Inf(1) // they see nothing
			near(t, saved, want, map[bool]float64{true: 1e-14, false: 1e-6}[dt == Float64])
			y.Sum().Backward(FreeGraph)
			if !saved.Freed() || leaf.Grad() == nil {
				t.Errorf("%s %s: what was saved outlives the graph", d, dt)
			}
		}
	}
	// A result without elements computes nothing, and its gradients are zeros.
	in := randomly([]int{2, 3, 4}, []int{2, 5, 4})
	q, k, v := in[0].RequireGrad(), in[1].RequireGrad(), As(Float64).Zeros(2, 5, 0).RequireGrad()
	for i, g := range Grad([]*Tensor{Attention(q, k, v, AttentionOptions{})}, []*Tensor{q, k, v}) {
		if g.Abs().Sum().Item() != 0 {
			t.Errorf("gradient %d of an empty result is %v", i, g)
		}
	}
}

// The weights of 2048 positions would be 16 MB, and a gradient needs several such
// matrices unless it goes over them piece by piece.
func TestAttentionGradMemory(t *testing.T) {
	d := AddVirtualGPUs(1, 4<<20)[0]
	q := d.Randn(2048, 8).RequireGrad()
	mask := d.Arange(2048).Ge(5)
	for name, o := range map[string]AttentionOptions{"plain": {}, "causal": {Causal: true}, "mask": {Mask: mask}} {
		if err := Try(func() {
			g := Grad([]*Tensor{Attention(q, q, q, o).Square().Sum()}, []*Tensor{q})[0]
			if x := g.Abs().Sum().Item(); !(x > 0) {
				t.Errorf("%s: the gradient's size is %v", name, x)
			}
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAttentionErrors(t *testing.T) {
	q, k, v := Zeros(2, 3, 4), Zeros(2, 5, 4), Zeros(2, 5, 6)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"sizes of q and k": {ErrShape, func() { Attention(q, Zeros(2, 5, 3), v, AttentionOptions{}) }},
		"lengths":          {ErrShape, func() { Attention(q, k, Zeros(2, 4, 6), AttentionOptions{}) }},
		"batches":          {ErrShape, func() { Attention(q, Zeros(3, 5, 4), v, AttentionOptions{}) }},
		"a vector":         {ErrShape, func() { Attention(Zeros(4), k, v, AttentionOptions{}) }},
		"the mask's shape": {ErrShape, func() { Attention(q, k, v, AttentionOptions{Mask: Zeros(5, 3)}) }},
		"a larger mask":    {ErrShape, func() { Attention(q, k, v, AttentionOptions{Mask: Zeros(4, 2, 3, 5)}) }},
		"the mask's type":  {ErrDType, func() { Attention(q, k, v, AttentionOptions{Mask: As(Int64).Zeros(3, 5)}) }},
		"with dropout":     {ErrDType, func() { Attention(q, k, v.Cast(Float64), AttentionOptions{Dropout: 0.5}) }},
		"element types":    {ErrDType, func() { Attention(q, k.Cast(Float64), v, AttentionOptions{}) }},
		"dropout":          {ErrArgument, func() { Attention(q, k, v, AttentionOptions{Dropout: 1.5}) }},
		"groups": {ErrShape, func() {
			Attention(q.Unsqueeze(0), Zeros(1, 3, 5, 4), Zeros(1, 3, 5, 6), AttentionOptions{Grouped: true})
		}},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}

// Attention of a packed projection, as layers have it, gives what it gives of copies of
// its parts, with gradients of any order, and copies nothing on the way.
func TestAttentionOfOneProjection(t *testing.T) {
	_, all := devicesOf()
	const n, l, heads, width = 2, 5, 3, 4
	part := func(x *Tensor, i int) *Tensor { return x.Narrow(-3, i, i+1).Squeeze(-3).Transpose(-3, -2) }
	merged := func(y *Tensor) *Tensor { return y.Transpose(-3, -2).Reshape(n, l, heads*width) }
	for _, d := range all {
		for _, causal := range []bool{false, true} {
			x := d.Key(NewKey(5)).Randn(n, l, 3, heads, width).RequireGrad()
			w := d.Key(NewKey(6)).Randn(n, l, heads*width)
			run := func(copies bool, opts ...GradOption) (y, g, second []float64) {
				of := func(i int) *Tensor {
					if copies {
						return part(x, i).Copy()
					}
					return part(x, i)
				}
				out := merged(Attention(of(0), of(1), of(2), AttentionOptions{Causal: causal}))
				values := bitsOf(out.Detach().Copy())
				dx := Grad([]*Tensor{out.Mul(w).Sum()}, []*Tensor{x}, opts...)[0]
				if len(opts) > 0 && opts[0] == CreateGraph {
					second = bitsOf(Grad([]*Tensor{dx.Square().Sum()}, []*Tensor{x})[0].Add(0))
				}
				return values, bitsOf(dx.Detach().Add(0)), second
			}
			for _, opts := range [][]GradOption{nil, {FreeGraph}, {CreateGraph}} {
				y, g, second := run(false, opts...)
				wantY, wantG, wantSecond := run(true, opts...)
				if !slices.Equal(y, wantY) || !slices.Equal(g, wantG) {
					t.Errorf("%s, causal %v, %v: another result or gradient than of copies", d, causal, opts)
				}
				for i, v := range second {
					if math.Abs(v-wantSecond[i]) > 1e-4 {
						t.Fatalf("%s, causal %v: element %d of the second gradient is %v, of copies %v", d, causal, i, v, wantSecond[i])
					}
				}
			}
			if !d.IsGPU() {
				continue
			}
			for _, s := range Profile(func() { run(false) }).Spans {
				if s.Name == "concat" || s.Name == "copy" && strings.Contains(s.Detail, "(2, 5, 3, 3, 4)") {
					t.Errorf("%s: %s of %s", d, s.Name, s.Detail)
				}
			}
			if y := Attention(part(x, 0), part(x, 1), part(x, 2), AttentionOptions{}); y.IsView() || !slices.Equal(y.Shape(), []int{n, heads, l, width}) {
				t.Errorf("%s: the result is a view, or of shape %v", d, y.Shape())
			}
		}
	}
}
