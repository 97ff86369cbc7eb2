package locus

import (
	"errors"
	"testing"

	"github.com/locusml/locus/internal/op"
)

func TestLinear(t *testing.T) {
	x := From([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	w := From([]float64{1, 0, 0, 0, 1, -1}, 2, 3)
	b := From([]float64{10, 20})
	near(t, Linear(x, w, b), []float64{11, 19, 14, 19}, 1e-15)
	near(t, Linear(x.Index(0), w, nil), []float64{1, -1}, 1e-15)
	hasShape(t, Linear(x.Reshape(2, 1, 3), w, b), 2, 1, 2)
	hasShape(t, Linear(As(Float64).Zeros(4, 0, 3), w, b), 4, 0, 2)
	linear := func(in ...*Tensor) *Tensor { return Linear(in[0], in[1], in[2]) }
	gradGradCheck(t, linear, randomly([]int{2, 3, 4}, []int{5, 4}, []int{5})...)

	// x1ᵀ·W·x2 with W all ones is the product of the sums.
	near(t, Bilinear(x, x, As(Float64).Ones(1, 3, 3), nil), []float64{36, 225}, 1e-15)
	near(t, Bilinear(x, x.Narrow(1, 0, 2), From([]float64{0, 1, 0, 0, 0, 0}, 1, 3, 2), From([]float64{100})), []float64{102, 120}, 1e-15)
	bilinear := func(in ...*Tensor) *Tensor { return Bilinear(in[0], in[1], in[2], in[3]) }
	gradGradCheck(t, bilinear, randomly([]int{2, 2, 3}, []int{2, 2, 2}, []int{4, 3, 2}, []int{4})...)

	for name, f := range map[string]func(){
		"features":        func() { Linear(x, w.T(), nil) },
		"bias":            func() { Linear(x, w, From([]float64{1})) },
		"a scalar":        func() { Linear(x.Index(0, 0), w, nil) },
		"bilinear weight": func() { Bilinear(x, x, As(Float64).Ones(1, 3, 2), nil) },
		"bilinear bias":   func() { Bilinear(x, x, As(Float64).Ones(1, 3, 3), b) },
	} {
		if err := Try(f); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v; want ErrShape", name, err)
		}
	}
	if err := Try(func() { Linear(nil, w, nil) }); !errors.Is(err, ErrArgument) {
		t.Errorf("nil: %v; want ErrArgument", err)
	}
}

// naiveConv is the definition of a convolution over (N, C, H, W).
func naiveConv(x, w *Tensor, stride, pad, dilation [2]int, groups int) ([]float64, []int) {
	xs, ws := ToSlice[float64](x), ToSlice[float64](w)
	n, c, h, wd := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	o, cg, kh, kw := w.Dim(0), w.Dim(1), w.Dim(2), w.Dim(3)
	oh := (h+2*pad[0]-dilation[0]*(kh-1)-1)/stride[0] + 1
	ow := (wd+2*pad[1]-dilation[1]*(kw-1)-1)/stride[1] + 1
	var out []float64
	for b := range n {
		for f := range o {
			first := f / (o / groups) * cg
			for i := range oh {
				for j := range ow {
					sum := 0.0
					for ch := range cg {
						for a := range kh {
							for e := range kw {
								y, z := i*stride[0]-pad[0]+a*dilation[0], j*stride[1]-pad[1]+e*dilation[1]
								if y >= 0 && y < h && z >= 0 && z < wd {
									sum += xs[((b*c+first+ch)*h+y)*wd+z] * ws[((f*cg+ch)*kh+a)*kw+e]
								}
							}
						}
					}
					out = append(out, sum)
				}
			}
		}
	}
	return out, []int{n, o, oh, ow}
}

func TestConv2D(t *testing.T) {
	for _, c := range []struct {
		x, w                  []int
		o                     ConvOptions
		stride, pad, dilation [2]int
		groups                int
	}{
		{[]int{2, 3, 5, 6}, []int{4, 3, 3, 2}, ConvOptions{}, [2]int{1, 1}, [2]int{}, [2]int{1, 1}, 1},
		{[]int{1, 2, 7, 5}, []int{2, 2, 1, 1}, ConvOptions{Stride: 2}, [2]int{2, 2}, [2]int{}, [2]int{1, 1}, 1},
		{[]int{2, 4, 6, 7}, []int{6, 2, 3, 3}, ConvOptions{Stride: HW(2, 1), Padding: HW(1, 2), Dilation: HW(1, 2), Groups: 2}, [2]int{2, 1}, [2]int{1, 2}, [2]int{1, 2}, 2},
		{[]int{1, 3, 5, 5}, []int{3, 1, 3, 3}, ConvOptions{Padding: Same, Groups: 3}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 3},
		{[]int{0, 2, 4, 4}, []int{1, 2, 2, 2}, ConvOptions{}, [2]int{1, 1}, [2]int{}, [2]int{1, 1}, 1},
	} {
		in := randomly(c.x, c.w, c.w[:1])
		want, shape := naiveConv(in[0], in[1], c.stride, c.pad, c.dilation, c.groups)
		y := Conv2D(in[0], in[1], nil, c.o)
		hasShape(t, y, shape...)
		near(t, y, want, 1e-12)
		near(t, Conv2D(in[0], in[1], in[2], c.o).Sub(in[2].Reshape(-1, 1, 1)), want, 1e-12)
		if c.x[0] > 0 {
			near(t, Conv2D(in[0].Index(0), in[1], nil, c.o), want[:len(want)/c.x[0]], 1e-12)
			gradGradCheck(t, func(in ...*Tensor) *Tensor { return Conv2D(in[0], in[1], in[2], c.o) }, in...)
		}
	}
	// An even kernel puts the odd zero after the image.
	near(t, Conv1D(From([]float64{1, 2, 3}, 1, 3), From([]float64{1, 10}, 1, 1, 2), nil, ConvOptions{Padding: Same}), []float64{21, 32, 3}, 1e-15)
}

func TestConv1D(t *testing.T) {
	x := From([]float64{1, 2, 3, 4, 5}, 1, 1, 5)
	w := From([]float64{1, 10, 100}, 1, 1, 3)
	for _, c := range []struct {
		o    ConvOptions
		want []float64
	}{
		{ConvOptions{}, []float64{321, 432, 543}},
		{ConvOptions{Stride: 2, Padding: 1}, []float64{210, 432, 54}},
		{ConvOptions{Dilation: 2}, []float64{531}},
		{ConvOptions{Padding: Same}, []float64{210, 321, 432, 543, 54}},
	} {
		near(t, Conv1D(x, w, nil, c.o), c.want, 1e-15)
		near(t, Conv1D(x.Squeeze(0), w, From([]float64{1}), c.o).Sub(1), c.want, 1e-15)
	}
	gradGradCheck(t, func(in ...*Tensor) *Tensor {
		return Conv1D(in[0], in[1], in[2], ConvOptions{Stride: 2, Padding: 1, Groups: 2})
	}, randomly([]int{2, 4, 6}, []int{2, 2, 3}, []int{2})...)
}

func TestConvTranspose(t *testing.T) {
	// Each element stamps its kernel.
	x := From([]float64{1, 2}, 1, 1, 2)
	w := From([]float64{1, 10, 100}, 1, 1, 3)
	for _, c := range []struct {
		o    ConvTransposeOptions
		want []float64
	}{
		{ConvTransposeOptions{}, []float64{1, 12, 120, 200}},
		{ConvTransposeOptions{Stride: 2}, []float64{1, 10, 102, 20, 200}},
		{ConvTransposeOptions{Stride: 2, Padding: 1}, []float64{10, 102, 20}},
		{ConvTransposeOptions{Stride: 2, Padding: 1, OutputPadding: 1}, []float64{10, 102, 20, 200}},
		{ConvTransposeOptions{Dilation: 2}, []float64{1, 2, 10, 20, 100, 200}},
	} {
		near(t, ConvTranspose1D(x, w, nil, c.o), c.want, 1e-15)
	}
	// It is the transpose: ⟨conv(a), b⟩ = ⟨a, convᵀ(b)⟩.
	in := randomly([]int{2, 4, 7, 6}, []int{6, 2, 3, 2})
	o := ConvOptions{Stride: HW(2, 3), Padding: HW(1, 0), Groups: 2}
	y := Conv2D(in[0], in[1], nil, o)
	b := randomly(nil, y.Shape())[1]
	back := ConvTranspose2D(b, in[1], nil, ConvTransposeOptions{Stride: o.Stride, Padding: o.Padding, Groups: 2, OutputPadding: HW(0, 1)})
	hasShape(t, back, in[0].Shape()...)
	near(t, back.Mul(in[0]).Sum(), []float64{y.Mul(b).Sum().Item()}, 1e-12)
	gradGradCheck(t, func(in ...*Tensor) *Tensor {
		return ConvTranspose2D(in[0], in[1], in[2], ConvTransposeOptions{Stride: 2, Padding: 1, OutputPadding: 1, Groups: 2})
	}, randomly([]int{1, 4, 3, 2}, []int{4, 1, 3, 3}, []int{2})...)
}

func TestConvErrors(t *testing.T) {
	x, w := Zeros(1, 4, 5, 5), Zeros(2, 4, 3, 3)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"channels":              {ErrShape, func() { Conv2D(x, Zeros(2, 3, 3, 3), nil, ConvOptions{}) }},
		"groups":                {ErrShape, func() { Conv2D(x, Zeros(3, 2, 3, 3), nil, ConvOptions{Groups: 2}) }},
		"rank of x":             {ErrShape, func() { Conv2D(Zeros(4, 5), w, nil, ConvOptions{}) }},
		"rank of weight":        {ErrShape, func() { Conv2D(x, Zeros(2, 4, 3), nil, ConvOptions{}) }},
		"bias":                  {ErrShape, func() { Conv2D(x, w, Zeros(3), ConvOptions{}) }},
		"kernel too large":      {ErrShape, func() { Conv2D(x, Zeros(2, 4, 6, 3), nil, ConvOptions{}) }},
		"negative padding":      {ErrArgument, func() { Conv2D(x, w, nil, ConvOptions{Padding: -1}) }},
		"negative stride, 1-D":  {ErrArgument, func() { Conv1D(Zeros(4, 5), Zeros(2, 4, 3), nil, ConvOptions{Stride: -1}) }},
		"half a stride":         {ErrArgument, func() { Conv2D(x, w, nil, ConvOptions{Stride: HW(0, 1)}) }},
		"Same with a stride":    {ErrArgument, func() { Conv2D(x, w, nil, ConvOptions{Padding: Same, Stride: 2}) }},
		"Same as a stride":      {ErrArgument, func() { Conv2D(x, w, nil, ConvOptions{Stride: Same}) }},
		"Same, transposed":      {ErrArgument, func() { ConvTranspose2D(x, Zeros(4, 2, 3, 3), nil, ConvTransposeOptions{Padding: Same}) }},
		"output padding":        {ErrArgument, func() { ConvTranspose2D(x, Zeros(4, 2, 3, 3), nil, ConvTransposeOptions{OutputPadding: 1}) }},
		"channels, transposed":  {ErrShape, func() { ConvTranspose2D(x, w, nil, ConvTransposeOptions{}) }},
		"element types":         {ErrDType, func() { Conv2D(x, w.Cast(Float64), nil, ConvOptions{}) }},
		"a negative size of HW": {ErrArgument, func() { HW(-1, 2) }},
	} {
		err := Try(c.f)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
	// What a primitive inside reports carries the name that the program called.
	var e *Error
	if err := Try(func() { Conv1D(Zeros(4, 5), Zeros(2, 4, 6), nil, ConvOptions{}) }); !errors.As(err, &e) || e.Op != "Conv1D" || len(e.Operands) != 2 || len(e.Operands[0].Shape) != 2 {
		t.Errorf("%v; want an error of Conv1D with its own operands", err)
	}
}

func TestPair(t *testing.T) {
	for p, want := range map[Pair]string{0: "0", 3: "3", HW(2, 1): "(2, 1)", HW(4, 4): "4", Same: "Same", -1: "-1"} {
		if p.String() != want {
			t.Errorf("%q; want %q", p.String(), want)
		}
	}
	if p := HW(0, 7); p.Height() != 0 || p.Width() != 7 {
		t.Errorf("HW(0, 7) is %d, %d", p.Height(), p.Width())
	}
}

// A convolution whose windows lie side by side is computed as a product: same results
// and gradients as the op's own.
func TestConvInPatches(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		for _, s := range []struct{ n, c, h, w, out, kh, kw int }{{2, 3, 8, 12, 5, 4, 4}, {1, 1, 9, 11, 2, 4, 5}, {3, 2, 16, 16, 4, 16, 16}, {2, 3, 2, 33, 3, 1, 16}} {
			k := NewKey(3).Split(3)
			x, w, b := d.As(Float64).Key(k[0]).Randn(s.n, s.c, s.h, s.w).RequireGrad(), d.As(Float64).Key(k[1]).Randn(s.out, s.c, s.kh, s.kw).RequireGrad(), d.As(Float64).Key(k[2]).Randn(s.out).RequireGrad()
			c := op.Conv{Stride: [2]int{s.kh, s.kw}, Dilation: [2]int{1, 1}, Groups: 1}
			if !inPatches(c, x, w) {
				t.Fatal("it is not computed in patches")
			}
			in := []*Tensor{x, w, b}
			got := Conv2D(x, w, b, ConvOptions{Stride: HW(s.kh, s.kw)}, ReluActivation)
			want := apply(op.ConvAct, op.ConvEpilogue{Conv: c, Act: op.Relu}, in...)
			near(t, got, bitsOf(want), 1e-12)
			seed := d.As(Float64).Key(NewKey(9)).Randn(got.Shape()...)
			a, e := Grad([]*Tensor{got.Mul(seed).Sum()}, in), Grad([]*Tensor{want.Mul(seed).Sum()}, in)
			for i := range a {
				near(t, a[i], bitsOf(e[i]), 1e-11)
			}
			if got.Free(); !got.Freed() {
				t.Error("the result does not own its memory")
			}
		}
	}
}
