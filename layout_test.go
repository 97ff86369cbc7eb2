package locus

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/virtual"
)

// saver is a virtual GPU that saves bytes with images that lie channels last, as if it had
// tensor cores, and notes the calls that it gets.
type saver struct {
	*virtual.Device
	saves   func(c *backend.Call) int // for a convolution; less than 0: it has no such kernel
	refuses bool
	calls   []op.ID
}

func (d *saver) Arranges(c *backend.Call) (bool, int) {
	can, _ := d.Device.Arranges(c)
	can = can && !d.refuses
	if _, conv := c.Attrs.(op.Conv); conv && can {
		n := d.saves(c)
		return n >= 0, n
	}
	return can, 0
}

func (d *saver) Run(c *backend.Call) error {
	d.calls = append(d.calls, c.Op)
	return d.Device.Run(c)
}

// saving is the one saver that tests share: there is a limit to devices.
var saving = sync.OnceValues(func() (*saver, Device) {
	gpus()
	s := &saver{Device: virtual.New(0, 64<<20)}
	return s, addGPUs([]backend.Device{s})[0]
})

func newSaver(t *testing.T, saves func(c *backend.Call) int) (*saver, Device) {
	t.Helper()
	old := layout.Set(layout.WherePays)
	t.Cleanup(func() { layout.Set(old) })
	s, d := saving()
	s.saves, s.calls = saves, nil
	return s, d
}

// isLast reports whether t lies channels last.
func isLast(t *Tensor) bool { return layout.IsLast(t.shape, t.strides) }

// all makes convolutions save whatever conversions cost.
func all(*backend.Call) int { return 1 << 30 }

// Images begin to lie channels last at a convolution that saves more than conversions cost,
// and stay so through what can follow.
func TestChannelsLastSpreads(t *testing.T) {
	s, d := newSaver(t, all)
	x, w := d.Randn(2, 3, 6, 5), d.Randn(4, 3, 3, 3)
	geo := ConvOptions{Padding: 1}
	y := Conv2D(x, w, nil, geo)
	if isLast(x) || isLast(w) || !isLast(y) || y.IsContiguous() {
		t.Fatalf("the result of a convolution lies as %v", y.strides)
	}
	plain := d.Randn(2, 4, 6, 5)
	norm, _, _ := BatchNorm(y, nil, nil, 1e-5)
	for name, r := range map[string]*Tensor{
		"relu": y.Relu(), "a sum with a number": y.Add(2), "a sum for each channel": y.Add(d.Randn(4, 1, 1)), "a sum of both": plain.Add(y),
		"a comparison": y.Gt(0), "a choice": y.Gt(0).Where(y, plain), "a cast": y.Cast(Float64), "a part": y.Narrow(1, 1, 4).Exp(), "rows": y.Narrow(2, 1, 4).Exp(),
		"concat of channels": Concat(1, y, y), "concat of rows": Concat(2, plain, y), "max pooling": MaxPool2D(y, 2, PoolOptions{}),
		"average pooling": AvgPool2D(y, 2, PoolOptions{}), "batch norm": norm, "detached": y.Detach(), "a smaller operand": d.Randn(1, 4, 6, 5).Add(y.Narrow(0, 0, 1)),
	} {
		if !isLast(r) {
			t.Errorf("%s: lies as %v, shape %v", name, r.strides, r.shape)
		}
	}
	for name, r := range map[string]*Tensor{
		"a copy": y.Copy(), "contiguous": y.Contiguous(), "more in order": Concat(1, y, plain, plain), "a mean": y.MeanKeep(2, 3), "flat": y.FlattenFrom(1),
		"in order": plain.Relu(), "a matrix product": y.MatMul(d.Randn(5, 5)), "one channel": Conv2D(y, d.Randn(1, 4, 3, 3), nil, geo), "on the CPU": y.To(CPU()),
	} {
		if !r.IsContiguous() {
			t.Errorf("%s: lies as %v, shape %v", name, r.strides, r.shape)
		}
	}
	for name, f := range map[string]func() *Tensor{
		"groups":  func() *Tensor { return Conv2D(y, d.Randn(4, 2, 3, 3), nil, ConvOptions{Groups: 2}) },
		"pooling": func() *Tensor { return MaxPool2D(y, 2, PoolOptions{}) },
	} {
		s.refuses, s.calls = true, nil
		r := f()
		s.refuses = false
		if len(s.calls) < 2 || s.calls[len(s.calls)-2] != op.Copy || !r.IsContiguous() {
			t.Errorf("%s that the device has in order only: calls %v, lies as %v", name, s.calls, r.strides)
		}
	}
	sequence := Conv1D(d.Randn(2, 3, 9), d.Randn(4, 3, 3), nil, ConvOptions{})
	if !sequence.IsContiguous() {
		t.Errorf("a sequence lies as %v", sequence.strides)
	}
}

// What decides are bytes: those that the device saves, and those of images that lie in order
// and must be turned.
func TestChannelsLastWeighs(t *testing.T) {
	bytes := 0
	_, d := newSaver(t, func(*backend.Call) int { return bytes })
	x, w := d.Randn(2, 3, 6, 5), d.Randn(4, 3, 3, 3)
	for _, c := range []struct {
		saves int
		want  bool
	}{{0, false}, {x.Bytes() - 1, false}, {x.Bytes(), true}} {
		bytes = c.saves
		if y := Conv2D(x, w, nil, ConvOptions{}); isLast(y) != c.want {
			t.Errorf("saves %d bytes: %v", c.saves, y.strides)
		}
	}
	bytes = 0
	if y := Conv2D(x.Permute(0, 2, 3, 1).Copy().Permute(0, 3, 1, 2), w, nil, ConvOptions{}); !isLast(y) {
		t.Errorf("of an image that the program has laid channels last: %v", y.strides)
	}
	layout.Set(layout.Never)
	bytes = 1 << 30
	if y := Conv2D(x, w, nil, ConvOptions{}); isLast(y) {
		t.Error("it lies channels last although that is off")
	}
}

// The CPU has nothing to gain: nothing lies channels last there.
func TestChannelsLastNotOnCPU(t *testing.T) {
	defer layout.Set(layout.Set(layout.WherePays))
	x := Randn(2, 3, 6, 5).Permute(0, 3, 1, 2)
	if isLast(x.Relu()) || isLast(Conv2D(x, Randn(4, 5, 3, 1), nil, ConvOptions{})) {
		t.Error("results lie channels last")
	}
}

// Gradients of leaves lie in order, put so by one call, and a filter is turned once for a
// convolution and its gradient.
func TestChannelsLastGradients(t *testing.T) {
	s, d := newSaver(t, all)
	x := d.Randn(2, 3, 6, 5)
	var ws []*Tensor
	for _, in := range []int{3, 4, 4} {
		ws = append(ws, d.Randn(4, in, 3, 3).RequireGrad())
	}
	net := func(ws ...*Tensor) *Tensor {
		y := x
		for _, w := range ws {
			y = Conv2D(y, w, nil, ConvOptions{Padding: 1}).Tanh()
		}
		return y.Square().Mean()
	}
	net(ws...).Backward()
	for _, w := range ws {
		w.ZeroGrad()
	}
	d.Synchronize()
	s.calls = nil
	net(ws...).Backward()
	n := map[op.ID]int{}
	for _, id := range s.calls {
		n[id]++
	}
	// x is turned for the convolution and for the gradient of the filter.
	if n[op.Copy] != 2+len(ws) || n[op.CastAll] != 1 {
		t.Errorf("%d copies and %d copies of lists, of %v", n[op.Copy], n[op.CastAll], s.calls)
	}
	for i, w := range ws {
		if g := w.Grad(); !g.IsContiguous() || g.offset != 0 {
			t.Errorf("gradient %d lies as %v", i, g.strides)
		}
	}
	for i, g := range Grad([]*Tensor{net(ws...)}, ws, FreeGraph) {
		if !g.IsContiguous() || g.IsView() {
			t.Errorf("gradient %d lies as %v", i, g.strides)
		}
	}
	for i, g := range Grad([]*Tensor{net(ws...)}, ws, CreateGraph) {
		if !g.IsContiguous() || !g.RequiresGrad() {
			t.Errorf("gradient %d with a history lies as %v", i, g.strides)
		}
	}
	order := []int{}
	GradEach([]*Tensor{net(ws...)}, ws, func(i int, g *Tensor) {
		order = append(order, i)
		if !g.IsContiguous() {
			t.Errorf("gradient %d of each lies as %v", i, g.strides)
		}
	})
	if slices.Sort(order); !slices.Equal(order, []int{0, 1, 2}) {
		t.Errorf("gradients of %v", order)
	}
}

// A training step holds no more when it is done, and not much more meanwhile, than with
// images in order.
func TestChannelsLastHoldsLittle(t *testing.T) {
	_, d := newSaver(t, all)
	x, w := d.Randn(8, 16, 24, 24), d.Randn(16, 16, 3, 3).RequireGrad()
	step := func() {
		Scoped(func(s *Scope) {
			y := s.Use(x)
			for range 4 {
				y = Conv2D(y, w, nil, ConvOptions{Padding: 1}).Relu()
			}
			Grad([]*Tensor{y.Mean()}, []*Tensor{w}, FreeGraph)[0].Free()
		})
		d.Synchronize()
	}
	var peak, kept [2]int64
	for i, how := range []layout.Setting{layout.Never, layout.WherePays} {
		layout.Set(how)
		step()
		before := d.MemoryStats().InUse
		d.ResetPeak()
		step()
		peak[i], kept[i] = d.MemoryStats().Peak-before, d.MemoryStats().InUse-before
	}
	if kept[1] != 0 || kept[0] != 0 {
		t.Errorf("kept %v bytes", kept)
	}
	if more := peak[1] - peak[0]; more > int64(x.Bytes()+5*w.Bytes()) {
		t.Errorf("the peaks are %v: %d more, an image has %d", peak, more, x.Bytes())
	}
}

// Whatever reads a result that lies channels last reads what it would read in order.
func TestChannelsLastIsRead(t *testing.T) {
	_, d := newSaver(t, all)
	x, w := Randn(2, 3, 6, 5), Randn(4, 3, 3, 3)
	want := Conv2D(x, w, nil, ConvOptions{Padding: 1})
	y := Conv2D(x.To(d), w.To(d), nil, ConvOptions{Padding: 1})
	if !isLast(y) {
		t.Fatal("the convolution's result lies in order")
	}
	near := func(what string, a, b *Tensor) {
		t.Helper()
		u, v := ToSlice[float32](a.Cast(Float32)), ToSlice[float32](b.Cast(Float32))
		if len(u) != len(v) || !slices.Equal(a.Shape(), b.Shape()) {
			t.Errorf("%s: %v, want %v", what, b.Shape(), a.Shape())
			return
		}
		for i := range u {
			if math.Abs(float64(u[i]-v[i])) > 1e-4*(1+math.Abs(float64(u[i]))) {
				t.Errorf("%s: element %d is %v, want %v", what, i, v[i], u[i])
				return
			}
		}
	}
	reads := map[string]func(t *Tensor) *Tensor{
		"itself":    func(t *Tensor) *Tensor { return t },
		"host":      func(t *Tensor) *Tensor { return From(ToSlice[float32](t), t.Shape()...) },
		"moved":     func(t *Tensor) *Tensor { return t.To(CPU()) },
		"pinned":    func(t *Tensor) *Tensor { return t.To(CPU()).Pin() },
		"reshaped":  func(t *Tensor) *Tensor { return t.Reshape(4, -1) },
		"flat":      func(t *Tensor) *Tensor { return t.Flatten().Add(1) },
		"permuted":  func(t *Tensor) *Tensor { return t.Permute(0, 2, 3, 1).Reshape(-1, 4).Exp() },
		"reversed":  func(t *Tensor) *Tensor { return t.Flip().Exp() },
		"sliced":    func(t *Tensor) *Tensor { return t.Narrow(1, 1, 3).Narrow(3, 1, 4).Exp() },
		"steps":     func(t *Tensor) *Tensor { return t.Slice(All(), R(0, 4, 2), All(), All()).Mul(2) },
		"summed":    func(t *Tensor) *Tensor { return t.Sum(0, 2, 3) },
		"averaged":  func(t *Tensor) *Tensor { return GlobalAvgPool(t) },
		"largest":   func(t *Tensor) *Tensor { return t.ArgMax(1).Cast(Float32) },
		"sorted":    func(t *Tensor) *Tensor { s, _ := t.Sort(1, false); return s },
		"padded":    func(t *Tensor) *Tensor { return t.Pad(0, 0, 0, 0, 0, 1, 1, 1, 1) },
		"stacked":   func(t *Tensor) *Tensor { return Stack(0, t, t.Relu()) },
		"softmax":   func(t *Tensor) *Tensor { return t.Softmax(1) },
		"group":     func(t *Tensor) *Tensor { return GroupNorm(t, 2, nil, nil, 1e-5) },
		"instance":  func(t *Tensor) *Tensor { return InstanceNorm(t, nil, nil, 1e-5) },
		"layer":     func(t *Tensor) *Tensor { return LayerNorm(t, []int{6, 5}, nil, nil, 1e-5) },
		"cumulated": func(t *Tensor) *Tensor { return t.CumSum(2) },
		"product":   func(t *Tensor) *Tensor { return t.MatMul(t.T()) },
		"expanded":  func(t *Tensor) *Tensor { return t.Unsqueeze(0).Expand(3, 2, 4, 6, 5).Add(1) },
		"vmapped": func(t *Tensor) *Tensor {
			return Vmap(func(a ...*Tensor) *Tensor { return a[0].Relu().Sum(0) })(t)
		},
		"compiled": func(t *Tensor) *Tensor {
			c := Compile(func(a ...*Tensor) []*Tensor { return []*Tensor{a[0].Relu().Add(1)} })
			for range 3 {
				c.Call(t)
			}
			return c.Call(t)[0]
		},
		"captured": func(t *Tensor) *Tensor {
			c := Compile(func(a ...*Tensor) []*Tensor { return []*Tensor{a[0].Mul(t)} })
			for range 3 {
				c.Call(t)
			}
			return c.Call(t.Copy())[0]
		},
		"checkpoint": func(t *Tensor) *Tensor {
			x := t.RequireGrad()
			Checkpoint(func(a ...*Tensor) *Tensor { return a[0].Square().Sum() }, x).Backward()
			return x.Grad()
		},
	}
	for name, f := range reads {
		t.Run(name, func(t *testing.T) { near(name, f(want), f(y)) })
	}
}

// A scope that is closed by another goroutine, and freed operands, are told as ever.
func TestChannelsLastErrors(t *testing.T) {
	_, d := newSaver(t, all)
	x, w := d.Randn(2, 3, 6, 5), d.Randn(4, 3, 3, 3)
	want := fmt.Sprint(Try(func() { Conv2D(x.Cast(Float64), w, nil, ConvOptions{}) }))
	layout.Set(layout.Never)
	if plain := fmt.Sprint(Try(func() { Conv2D(x.Cast(Float64), w, nil, ConvOptions{}) })); plain != want {
		t.Errorf("%s, in order %s", want, plain)
	}
	layout.Set(layout.WherePays)
	y := Conv2D(x, w, nil, ConvOptions{})
	y.Free()
	if err := Try(func() { y.Relu() }); err == nil {
		t.Error("no error from a freed operand")
	}
	a, b := d.Zeros(1, 16, 800, 800), d.Zeros(2, 16, 3, 3) // more than half of the memory
	defer a.Free()
	if err := Try(func() { Conv2D(a, b, nil, ConvOptions{}) }); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("no memory for the copy: %v", err)
	}
}

// Random networks have the same values and gradients whichever of their ops save something:
// then images in order and channels last meet everywhere.
func TestChannelsLastRandom(t *testing.T) {
	var salt uint64
	_, d := newSaver(t, func(c *backend.Call) int {
		h := fnv.New64a()
		fmt.Fprint(h, salt, c.Op, c.Out.Shape, c.In[0].Shape)
		return (int(h.Sum64()%4) - 1) * 4000 // it cannot, or saves nothing, a part, all
	})
	m := d.As(Float64)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	mixed := 0
	for round := range rounds {
		salt = uint64(round)
		build := func() (values []*Tensor, last int) {
			r := rand.New(rand.NewPCG(salt, 7))
			drawn := uint64(0)
			randn := func(shape ...int) *Tensor {
				drawn++
				return m.Key(NewKey(salt).Fold(drawn)).Randn(shape...)
			}
			var leaves []*Tensor
			leaf := func(shape ...int) *Tensor {
				x := randn(shape...).RequireGrad()
				leaves = append(leaves, x)
				return x
			}
			pool := []*Tensor{leaf(2, 3, 6, 8), leaf(2, 4, 6, 8)}
			for range 12 {
				x := pool[r.IntN(len(pool))]
				c := x.Dim(1)
				var y *Tensor
				switch r.IntN(16) {
				case 0, 1, 2:
					y = Conv2D(x, leaf(2+r.IntN(3), c, 3, 3), nil, ConvOptions{Padding: 1}).Mul(0.2)
				case 3:
					y = Conv2D(x, leaf(3, c, 1, 1), leaf(3), ConvOptions{}, TanhActivation)
				case 4:
					y = Conv2D(x, leaf(c, 1, 3, 3), nil, ConvOptions{Padding: 1, Groups: c}).Mul(0.3)
				case 5:
					y = ConvTranspose2D(MaxPool2D(x, 2, PoolOptions{}), leaf(c, 3, 2, 2), leaf(3), ConvTransposeOptions{Stride: 2}).Mul(0.3)
				case 6:
					y, _, _ = BatchNorm(x, leaf(c), leaf(c), 1e-3)
				case 7:
					y = AvgPool2D(x, 3, PoolOptions{Stride: 1, Padding: 1})
				case 8:
					y = Concat(1, x, pool[r.IntN(len(pool))])
				case 9:
					y = x.Add(randn(c, 1, 1)).Sigmoid()
				case 10:
					y = x.Mul(x.MeanKeep(2, 3).Sigmoid())
				case 11:
					y = Concat(2, x.Narrow(2, 3, 6), x.Narrow(2, 0, 3)).Tanh()
				case 12:
					y = x.Permute(0, 2, 3, 1).Reshape(-1, c).Exp().Add(1).Log().Reshape(2, 6, 8, c).Permute(0, 3, 1, 2)
				case 13:
					y = x.Narrow(1, c-1, c).Add(x).Relu()
				case 14:
					y = x.Gt(0).Where(x, x.Mul(0.1))
				case 15:
					y = x.Flip(3).Pad(0, 0, 0, 0, 0, 1, 0, 0, 0).Narrow(2, 0, 6)
				}
				if y.Dim(1) > 6 {
					y = y.Narrow(1, 1, 5)
				}
				pool = append(pool, y)
				if isLast(y) {
					last++
				}
			}
			var loss *Tensor
			for _, x := range pool {
				if s := x.Square().Mean(); loss == nil {
					loss = s
				} else {
					loss = loss.Add(s)
				}
			}
			first := Grad([]*Tensor{loss}, leaves, CreateGraph)
			second := first[0].Square().Sum()
			for _, g := range first[1:] {
				second = second.Add(g.Square().Sum())
			}
			values = append(append(pool, loss), first...)
			return append(values, Grad([]*Tensor{second}, leaves)...), last
		}
		layout.Set(layout.Never)
		want, _ := build()
		layout.Set(layout.WherePays)
		got, last := build()
		if last > 0 && last < 12 {
			mixed++
		}
		for i := range want {
			a, b := ToSlice[float64](want[i]), ToSlice[float64](got[i])
			size := 1.0
			for _, v := range a {
				size = max(size, math.Abs(v))
			}
			for k := range a {
				if !(math.Abs(a[k]-b[k]) <= 1e-10*size) {
					t.Fatalf("round %d, value %d of %d: element %d is %v, in order %v", round, i, len(want), k, b[k], a[k])
				}
			}
		}
	}
	if mixed < rounds/2 {
		t.Errorf("only %d of %d networks had images in both layouts", mixed, rounds)
	}
}
