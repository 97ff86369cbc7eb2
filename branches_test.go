package locus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// network is a random graph of ops with shared branches, views, norms and several results.
type network struct {
	leaves  []*Tensor
	all     []*Tensor // every result, in order
	outputs []*Tensor // scalars
	names   []string  // of the ops
	given   *Tensor   // what a rule of the program returns as a gradient
	kept    []*Tensor // what one has kept
	was     [][]float64
}

// randomNetwork makes the same network for the same number. With retained handles only:
// what its layers lose nobody else has.
func randomNetwork(d Device, number uint64) *network {
	const rows, cols = 4, 6
	r := rand.New(rand.NewPCG(number, 3))
	m := d.As([]DType{Float32, Float32, BFloat16, Float64}[r.IntN(4)])
	n := &network{}
	drawn := uint64(0)
	randn := func(shape ...int) *Tensor {
		drawn++
		return m.Key(NewKey(number).Fold(drawn)).Randn(shape...)
	}
	leaf := func(shape ...int) *Tensor {
		x := randn(shape...)
		if r.IntN(4) == 0 { // frozen
			return x
		}
		x = x.RequireGrad()
		n.leaves = append(n.leaves, x)
		return x
	}
	n.given = randn(rows, cols)
	first := randn(rows, cols).RequireGrad()
	n.leaves = append(n.leaves, first)
	pool := []*Tensor{first, leaf(rows, cols)}
	var shared *Tensor // a weight of several norms
	weight := func() *Tensor {
		if shared == nil || r.IntN(2) == 0 {
			shared = leaf(cols)
		}
		return shared
	}
	forward := func(a ...*Tensor) *Tensor { return a[0].Mul(1) }
	ops := []struct {
		name string
		f    func(x, y *Tensor) *Tensor
	}{
		{"add", func(x, y *Tensor) *Tensor { return x.Add(y) }},
		{"twice", func(x, _ *Tensor) *Tensor { return x.Add(x) }},
		{"sub", func(x, y *Tensor) *Tensor { return x.Sub(y) }},
		{"mul", func(x, y *Tensor) *Tensor { return x.Mul(y) }},
		{"layer norm", func(x, _ *Tensor) *Tensor { return LayerNorm(x, []int{cols}, weight(), weight(), 1e-3) }},
		{"plain norm", func(x, _ *Tensor) *Tensor { return LayerNorm(x, []int{cols}, nil, nil, 1e-3) }},
		{"rms norm", func(x, _ *Tensor) *Tensor { return RMSNorm(x, []int{cols}, weight(), 1e-3) }},
		{"residual", func(x, _ *Tensor) *Tensor {
			return x.Add(LayerNorm(x, []int{cols}, weight(), weight(), 1e-3).Tanh())
		}},
		{"sum and norm", func(x, y *Tensor) *Tensor {
			s, z := addNorm(x, y, []int{cols}, weight(), weight(), 1e-3)
			n.all = append(n.all, s)
			pool = append(pool, s)
			return z
		}},
		{"group norm", func(x, _ *Tensor) *Tensor { return GroupNorm(x, 2, weight(), nil, 1e-3) }},
		{"batch norm", func(x, _ *Tensor) *Tensor { y, _, _ := BatchNorm(x, weight(), weight(), 1e-3); return y }},
		{"tanh", func(x, _ *Tensor) *Tensor { return x.Tanh() }},
		{"gelu", func(x, _ *Tensor) *Tensor { return x.Gelu() }},
		{"silu", func(x, _ *Tensor) *Tensor { return x.Silu() }},
		{"mish", func(x, _ *Tensor) *Tensor { return x.Mish() }},
		{"hard swish", func(x, _ *Tensor) *Tensor { return x.HardSwish() }},
		{"hard sigmoid", func(x, _ *Tensor) *Tensor { return x.HardSigmoid() }},
		{"relu", func(x, _ *Tensor) *Tensor { return x.Relu() }},
		{"softmax", func(x, _ *Tensor) *Tensor { return x.Softmax(1) }},
		{"product", func(x, _ *Tensor) *Tensor { return x.MatMul(leaf(cols, cols)).Mul(0.3) }},
		{"linear", func(x, _ *Tensor) *Tensor { return Linear(x, leaf(cols, cols), leaf(cols), GeluActivation).Mul(0.3) }},
		{"transposed", func(x, _ *Tensor) *Tensor { return x.T().Sin().T() }},
		{"view", func(x, _ *Tensor) *Tensor { return x.Reshape(cols, rows).Reshape(rows, cols) }},
		{"reshaped", func(x, _ *Tensor) *Tensor { return x.Reshape(cols, rows).Sigmoid().Reshape(rows, cols) }},
		{"parts", func(x, y *Tensor) *Tensor { return Concat(1, x.Narrow(1, 3, 6), y.Narrow(1, 0, 3)) }},
		{"halves", func(x, _ *Tensor) *Tensor {
			x = x.Mul(1.5) // cut and nothing else
			n.all = append(n.all, x)
			return Concat(0, x.Narrow(0, 2, 4).Sin(), x.Narrow(0, 0, 2))
		}},
		{"overlapping", func(x, _ *Tensor) *Tensor {
			x = x.Mul(1.5)
			return Concat(0, x.Narrow(0, 0, 2), x.Narrow(0, 1, 3))
		}},
		{"broadcast", func(x, _ *Tensor) *Tensor { return x.Sub(x.MeanKeep(1)) }},
		{"pool", func(x, _ *Tensor) *Tensor {
			return MaxPool2D(x.Reshape(1, 1, rows, cols), 3, PoolOptions{Stride: 1, Padding: 1}).Reshape(rows, cols)
		}},
		{"convolution", func(x, _ *Tensor) *Tensor {
			y := Conv2D(x.Reshape(1, 2, 2, cols), leaf(3, 2, 3, 3), nil, ConvOptions{Padding: 1})
			y = y.Add(y.Tanh()).Mul(0.2)
			return Conv2D(y, leaf(2, 3, 1, 1), leaf(2), ConvOptions{}).Reshape(rows, cols)
		}},
		{"cast", func(x, _ *Tensor) *Tensor { return x.Cast(Float16).Mul(0.5).Cast(x.DType()) }},
		{"detached", func(x, y *Tensor) *Tensor { return x.Mul(y.Detach()) }},
		{"lost", func(x, _ *Tensor) *Tensor { // as package nn does
			h := x.Mul(0.5)
			y := h.Gelu()
			h.lose(y, false)
			s, z := addNorm(x, y, []int{cols}, weight(), weight(), 1e-3)
			y.lose(s, true)
			s.lose(z, false)
			return z
		}},
		{"checkpoint", func(x, y *Tensor) *Tensor {
			return Checkpoint(func(a ...*Tensor) *Tensor { return a[0].Sin().Mul(a[1]).Add(a[0]) }, x, y)
		}},
		{"passed on", func(x, y *Tensor) *Tensor {
			return Custom("passed on", func(a ...*Tensor) *Tensor { return a[0].Add(a[1]) },
				func(_ []*Tensor, _, g *Tensor) []*Tensor { n.keep(g); return []*Tensor{g, g} }, x, y)
		}},
		{"operand", func(x, _ *Tensor) *Tensor {
			return Custom("operand", forward, func(a []*Tensor, _, _ *Tensor) []*Tensor { return a }, x)
		}},
		{"given", func(x, _ *Tensor) *Tensor {
			return Custom("given", forward, func([]*Tensor, *Tensor, *Tensor) []*Tensor { return []*Tensor{n.given} }, x)
		}},
		{"within", func(x, _ *Tensor) *Tensor {
			return Checkpoint(func(a ...*Tensor) *Tensor {
				return Custom("within", forward, func(_ []*Tensor, _, g *Tensor) []*Tensor { n.keep(g); return []*Tensor{n.given} }, a[0])
			}, x)
		}},
		{"none", func(x, _ *Tensor) *Tensor {
			return Custom("none", forward, func([]*Tensor, *Tensor, *Tensor) []*Tensor { return []*Tensor{nil} }, x)
		}},
		{"vmap", func(x, y *Tensor) *Tensor {
			w := weight()
			return Vmap(func(a ...*Tensor) *Tensor {
				return a[0].Add(RMSNorm(a[0].Mul(a[1]), []int{cols}, w, 1e-3))
			})(x, y)
		}},
	}
	for range 4 + r.IntN(10) {
		o := ops[r.IntN(len(ops))]
		x, y := pool[r.IntN(len(pool))], pool[max(0, len(pool)-1-r.IntN(3))]
		if r.IntN(2) == 0 {
			x, y = y, x
		}
		z := o.f(x, y)
		n.names = append(n.names, o.name)
		n.all = append(n.all, z)
		pool = append(pool, z)
	}
	for i := range 1 + r.IntN(3) {
		x := pool[len(pool)-1-i]
		n.outputs = append(n.outputs, x.Mul(first).Add(x).Sum())
	}
	return n
}

// keep remembers a gradient that a rule of the program has kept.
func (n *network) keep(g *Tensor) {
	if g.lane == nil {
		n.kept, n.was = append(n.kept, g), append(n.was, bitsOf(g.Detach()))
	}
}

// changed returns which tensors do not have the values that they had; with free those
// that were freed are left out.
func changed(ts []*Tensor, was [][]float64, free bool) (which []int) {
	for i, t := range ts {
		if free && t.Freed() {
			continue
		}
		if t.Freed() || !sameBits(bitsOf(t.Detach()), was[i]) {
			which = append(which, i)
		}
	}
	return which
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || x != x && y != y })
}

func allBits(ts []*Tensor) (all [][]float64) {
	for _, t := range ts {
		all = append(all, bitsOf(t.Detach()))
	}
	return all
}

// Gradients of random networks have the same bits whatever becomes of the graph and however
// they are asked for; and all that the program has handles of has its values afterwards.
func TestGradientsOfRandomNetworks(t *testing.T) {
	_, all := devicesOf()
	rounds := uint64(250)
	if testing.Short() {
		rounds = 40
	}
	for _, d := range all {
		for number := range rounds {
			randomGradients(t, d, number)
		}
	}
}

func randomGradients(t *testing.T, d Device, number uint64) {
	var names []string
	run := func(how string, free bool, f func(n *network) []*Tensor) (grads [][]float64) {
		t.Helper()
		err := Try(func() {
			n := randomNetwork(d, number)
			names = n.names
			values, given, leaves, outputs := allBits(n.all), bitsOf(n.given), allBits(n.leaves), allBits(n.outputs)
			grads = allBits(f(n))
			for _, c := range []struct {
				what string
				bad  []int
			}{
				{"results", changed(n.all, values, free)},
				{"leaves", changed(n.leaves, leaves, false)},
				{"outputs", changed(n.outputs, outputs, false)},
				{"a gradient of the program's", changed([]*Tensor{n.given}, [][]float64{given}, false)},
				{"kept gradients", changed(n.kept, n.was, false)},
			} {
				if c.bad != nil {
					t.Errorf("network %d on %s, %s: %s %v have changed or are freed (%v)", number, d, how, c.what, c.bad, names)
				}
			}
		})
		if err != nil {
			t.Errorf("network %d on %s, %s: %v (%v)", number, d, how, err, names)
		}
		return grads
	}
	same := func(how string, got, want [][]float64) {
		t.Helper()
		if !slices.EqualFunc(got, want, sameBits) {
			t.Errorf("network %d on %s, %s: other gradients (%v)", number, d, how, names)
		}
	}
	// The inputs are the leaves and a result on the way.
	inputs := func(n *network) []*Tensor {
		in := slices.Clone(n.leaves)
		for _, x := range n.all[len(n.all)/2:] {
			if x.RequiresGrad() {
				return append(in, x)
			}
		}
		return in
	}
	want := run("CreateGraph", false, func(n *network) []*Tensor { return Grad(n.outputs, inputs(n), CreateGraph) })
	for _, o := range []GradOption{0, RetainGraph, FreeGraph} {
		how := fmt.Sprint("option ", o)
		same(how, run(how, o == FreeGraph, func(n *network) []*Tensor { return Grad(n.outputs, inputs(n), o) }), want)
		same(how+" one by one", run(how+" one by one", o == FreeGraph, func(n *network) []*Tensor {
			in := inputs(n)
			grads := make([]*Tensor, len(in))
			GradEach(n.outputs, in, func(i int, g *Tensor) {
				grads[i] = g.Copy()
				g.Free()
			}, o)
			return grads
		}), want)
	}
	same("again", run("again", false, func(n *network) []*Tensor {
		Grad(n.outputs, inputs(n), RetainGraph)
		return Grad(n.outputs, inputs(n))
	}), want)
	// Each output on its own, collected by the leaves.
	collect := func(opts ...GradOption) func(n *network) []*Tensor {
		return func(n *network) []*Tensor {
			var kept []*Tensor
			var was [][]float64
			for i, y := range n.outputs {
				o := opts
				if i < len(n.outputs)-1 {
					o = []GradOption{RetainGraph}
				}
				y.Backward(o...)
				for _, x := range n.leaves {
					if g := x.Grad(); g != nil {
						kept, was = append(kept, g), append(was, bitsOf(g.Detach()))
					}
				}
			}
			if bad := changed(kept, was, false); bad != nil {
				t.Errorf("network %d on %s: collected gradients %v have changed (%v)", number, d, bad, names)
			}
			var grads []*Tensor
			for _, x := range n.leaves {
				if g := x.Grad(); g != nil {
					grads = append(grads, g)
				}
			}
			return grads
		}
	}
	want = run("collected, CreateGraph", false, collect(CreateGraph))
	for _, o := range []GradOption{0, RetainGraph, FreeGraph} {
		how := fmt.Sprint("collected, option ", o)
		same(how, run(how, o == FreeGraph, collect(o)), want)
	}
}

// A rule of the program may keep what it gets and return what it holds, inside of a
// checkpoint too: neither is freed or written over.
func TestCustomInCheckpoint(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		for _, o := range []GradOption{0, FreeGraph, RetainGraph} {
			k, x := d.Ones(4, 3), d.Ones(4, 3).RequireGrad()
			var kept *Tensor
			given := func(a ...*Tensor) *Tensor {
				return Custom("given", func(a ...*Tensor) *Tensor { return a[0].Mul(1) },
					func(_ []*Tensor, _, g *Tensor) []*Tensor { kept = g; return []*Tensor{k} }, a[0])
			}
			h := x.Mul(2)
			twice := func(a ...*Tensor) *Tensor { return Checkpoint(given, a...) }
			h.Sin().Sum().Add(Checkpoint(twice, h).Mul(3).Sum()).Backward(o)
			if k.Freed() || kept.Freed() {
				t.Errorf("%s, option %d: freed: %v, and what the rule kept: %v", d, o, k.Freed(), kept.Freed())
			} else if k.Sum().Item() != 12 || kept.Sum().Item() != 36 {
				t.Errorf("%s, option %d: %v and %v", d, o, k, kept)
			}
		}
	}
}

// What a pass does not reach stays for another one.
func TestResultsWithoutGradientStay(t *testing.T) {
	for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
		x := d.Ones(4, 3).RequireGrad()
		h := x.Mul(2)
		z := h.Sin()
		h.lose(z, false)
		none := Custom("none", func(a ...*Tensor) *Tensor { return a[0].Mul(1) },
			func([]*Tensor, *Tensor, *Tensor) []*Tensor { return []*Tensor{nil} }, z)
		none.Sum().Backward()
		if err := Try(func() { z.Sum().Backward() }); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// FreeGraph frees nothing that the rest of the pass reads: a detached result, as
// straight-through estimators have, or one that is a gradient too.
func TestFreeGraphSparesWhatIsRead(t *testing.T) {
	for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
		for name, f := range map[string]func(x *Tensor) *Tensor{
			"detached": func(x *Tensor) *Tensor { y := x.Mul(3); return x.Sin().Mul(y.Detach()).Add(y.Exp()) },
			"a view":   func(x *Tensor) *Tensor { y := x.Mul(3); return x.Sin().Mul(y.Detach().T().T()).Add(y.Exp()) },
			"an operand": func(x *Tensor) *Tensor {
				y := x.Sin().Add(x)
				return Custom("operand", func(a ...*Tensor) *Tensor { return a[0].Mul(1) }, func(a []*Tensor, _, _ *Tensor) []*Tensor { return a }, y)
			},
		} {
			x := d.Key(NewKey(4)).Randn(4, 4).RequireGrad()
			want := bitsOf(Grad([]*Tensor{f(x).Sum()}, []*Tensor{x})[0])
			if err := Try(func() {
				if got := bitsOf(Grad([]*Tensor{f(x).Sum()}, []*Tensor{x}, FreeGraph)[0]); !slices.Equal(got, want) {
					t.Errorf("%s on %s: got %v, want %v", name, d, got, want)
				}
			}); err != nil {
				t.Errorf("%s on %s: %v", name, d, err)
			}
		}
	}
}

// A gradient that is the same for all slices of a Vmap is not added to as if there were
// one slice.
func TestNormOfSlicesWithOneGradient(t *testing.T) {
	for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
		x, k := d.Key(NewKey(1)).Randn(5, 4, 3).RequireGrad(), d.Key(NewKey(2)).Randn(4, 3)
		same := func(x *Tensor) *Tensor {
			return Custom("same", func(a ...*Tensor) *Tensor { return a[0].Mul(1) }, func([]*Tensor, *Tensor, *Tensor) []*Tensor { return []*Tensor{k} }, x)
		}
		f := func(a ...*Tensor) *Tensor {
			h := a[0].Mul(2)
			return same(LayerNorm(h, []int{3}, nil, nil, 1e-3)).Add(same(h))
		}
		got := Grad([]*Tensor{Vmap(f)(x).Sum()}, []*Tensor{x})[0]
		for i := range 5 {
			one := x.Detach().Index(i).RequireGrad()
			want := Grad([]*Tensor{f(one).Sum()}, []*Tensor{one})[0]
			if diff := got.Index(i).Sub(want).Abs().Max().Item(); diff > 1e-4 {
				t.Errorf("%s: slice %d is %v off", d, i, diff)
			}
		}
	}
}
