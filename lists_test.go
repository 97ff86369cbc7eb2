package locus

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// listOf makes tensors of all floating-point types and layouts, with a nil and an empty one.
func listOf(d Device) []*Tensor {
	key := NewKey(11).Split(8)
	return []*Tensor{
		d.Key(key[0]).Randn(40, 30), nil, d.As(Float64).Key(key[1]).Randn(7), d.As(BFloat16).Key(key[2]).Randn(9, 4),
		d.Key(key[3]).Randn(30, 5).T(), d.Zeros(0, 3), d.As(Float16).Key(key[4]).Randn(3), d.Key(key[5]).Randn(2).Expand(70000, 2), d.As(BFloat16).Key(key[6]).Randn(),
	}
}

// What is done to a list is to the bit what single ops do.
func TestListsAreWhatSingleOpsGive(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		ts := listOf(d)
		factor := d.Full(0.3)
		scaled := ScaleAll(ts, factor)
		casts := CastAll(ts, BFloat16)
		for i, x := range ts {
			if x == nil {
				if scaled[i] != nil || casts[i] != nil {
					t.Error("nil did not stay nil")
				}
				continue
			}
			if !slices.Equal(bitsOf(scaled[i]), bitsOf(x.Mul(factor.Cast(x.dtype)))) || scaled[i].dtype != x.dtype || !sameShape(scaled[i].shape, x.shape) {
				t.Errorf("%s: scaled %d", d, i)
			}
			if !slices.Equal(bitsOf(casts[i]), bitsOf(x.Cast(BFloat16))) || casts[i].dtype != BFloat16 {
				t.Errorf("%s: cast %d", d, i)
			}
			if (casts[i] == x) != (x.dtype == BFloat16) {
				t.Error("a tensor that has the type is not returned as it is")
			}
		}
	}
}

// Results belong to their operands' scopes.
func TestListsInScopes(t *testing.T) {
	a, b := Ones(5), Ones(6)
	s := NewScope()
	c := CastAll([]*Tensor{s.Use(a), b}, Float64)
	if s.Len() != 1 {
		t.Errorf("the scope holds %d", s.Len())
	}
	s.Close()
	if !c[0].Freed() || c[1].Freed() {
		t.Error("a cast is freed with the scope that it belongs to")
	}
}

// Gradients of leaves in another type are converted together, at the end. They are
// what single casts make of them: with a graph of the gradients, which rules that out.
func TestGradientsOfCastLeaves(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		loss := func(x, y, z *Tensor) *Tensor {
			h := CastAll([]*Tensor{x, y, z}, BFloat16)
			a := h[0].MatMul(h[1]).Gelu()
			b := a.Cast(Float32).Mul(z).Add(h[2].Cast(Float32)).Sum() // z in both types
			return b.Add(h[0].Square().Sum().Cast(Float32)).Add(x.Cast(Float64).Sin().Sum().Cast(Float32))
		}
		leaves := func() []*Tensor {
			k := NewKey(5).Split(3)
			return []*Tensor{d.Key(k[0]).Randn(6, 4).RequireGrad(), d.Key(k[1]).Randn(4, 5).RequireGrad(), d.Key(k[2]).Randn(6, 5).RequireGrad()}
		}
		in := leaves()
		want := Grad([]*Tensor{loss(in[0], in[1], in[2])}, in, CreateGraph)
		for name, opts := range map[string][]GradOption{"plain": nil, "FreeGraph": {FreeGraph}, "RetainGraph": {RetainGraph}} {
			in := leaves()
			before := d.MemoryStats().InUse
			got := Grad([]*Tensor{loss(in[0], in[1], in[2])}, in, opts...)
			for i := range got {
				if !slices.Equal(bitsOf(got[i]), bitsOf(want[i])) || got[i].dtype != Float32 {
					t.Errorf("%s, %s: gradient %d: %v, want %v", d, name, i, got[i], want[i])
				}
				got[i].Free()
			}
			if name == "FreeGraph" {
				d.Collect()
				if left := d.MemoryStats().InUse - before; left > 4096 {
					t.Errorf("%s: %d bytes are left", d, left)
				}
			}
		}
		in = leaves()
		for range 2 { // the second adds to the first
			loss(in[0], in[1], in[2]).Backward()
		}
		for i, x := range in {
			if !slices.Equal(bitsOf(x.Grad()), bitsOf(want[i].Detach().Mul(2))) {
				t.Errorf("%s: collected gradient %d", d, i)
			}
		}
	}
}

// Gradients flow through lists as through single ops, also where only some need one.
func TestGradientsThroughLists(t *testing.T) {
	run := func(lists bool) (out [][]float64) {
		x, y, z := CPU().Key(NewKey(1)).Randn(3, 4).RequireGrad(), CPU().Key(NewKey(2)).Randn(5), CPU().Key(NewKey(3)).Randn(2).RequireGrad()
		ts := []*Tensor{x, y, z}
		var halves []*Tensor
		if lists {
			halves = CastAll(ts, BFloat16)
		} else {
			for _, t := range ts {
				halves = append(halves, t.Cast(BFloat16))
			}
		}
		factor := x.Sum()
		var scaled []*Tensor
		if lists {
			scaled = ScaleAll(ts, factor)
		} else {
			for _, t := range ts {
				scaled = append(scaled, t.Mul(factor))
			}
		}
		var loss *Tensor
		for i, h := range halves {
			l := h.Cast(Float32).Square().Sum().Add(scaled[i].Tanh().Sum())
			if loss == nil {
				loss = l
			} else {
				loss = loss.Add(l)
			}
		}
		for _, g := range Grad([]*Tensor{loss}, []*Tensor{x, z}) {
			out = append(out, bitsOf(g))
		}
		return out
	}
	want, got := run(false), run(true)
	for i := range want {
		if !slices.Equal(want[i], got[i]) {
			t.Errorf("gradient %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// The norm is that of all elements; squares do not overflow, what is not finite shows.
func TestGlobalNorm(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		ts := listOf(d)
		sum := 0.0
		for _, x := range given(0, ts...) {
			for _, v := range bitsOf(x) {
				sum += v * v
			}
		}
		if got, want := GlobalNorm(ts).Item(), math.Sqrt(sum); math.Abs(got-want) > 1e-5*want {
			t.Errorf("%s: %v, want %v", d, got, want)
		}
		if n := GlobalNorm([]*Tensor{d.Full(3e25, 300), d.Full(4e25, 300)}); n.dtype != Float32 || math.Abs(n.Item()/(5e25*math.Sqrt(300))-1) > 1e-6 {
			t.Errorf("%s: large squares: %v", d, n)
		}
		if n := GlobalNorm([]*Tensor{d.As(Float64).Full(3, 1), d.As(Float64).Full(4, 1)}); n.dtype != Float64 || n.Item() != 5 {
			t.Errorf("%s: float64: %v", d, n)
		}
		for _, bad := range []float64{math.Inf(-1), math.NaN()} {
			grads, ok := Unscale([]*Tensor{d.Ones(5), nil, d.Full(bad, 7)}, d.Full(8))
			if ok.Item() != 0 || grads[1] != nil || grads[0].Index(0).Item() != 0.125 {
				t.Errorf("%s: %v counts as finite", d, bad)
			}
		}
		if _, ok := Unscale([]*Tensor{d.Full(1e36, 5000)}, d.Full(2)); ok.Item() == 0 {
			t.Errorf("%s: finite gradients count as infinite", d)
		}
	}
}

// Clipping takes a constant number of ops.
func TestClippingAllocatesLittle(t *testing.T) {
	count := func(n int) int64 {
		var ts []*Tensor
		for i := range n {
			ts = append(ts, Full(float64(i), 2000))
		}
		before := CPU().MemoryStats().Allocations
		ClipGlobalNorm(ts, 1)
		return CPU().MemoryStats().Allocations - before - int64(n) // the results
	}
	if few, many := count(2), count(60); few != many || many > 8 {
		t.Errorf("%d allocations beside the results for 2 tensors, %d for 60", few, many)
	}
}

func TestListsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"no factor":       {ErrArgument, func() { ScaleAll([]*Tensor{Ones(2)}, nil) }},
		"a factor of two": {ErrShape, func() { ScaleAll([]*Tensor{Ones(2)}, Ones(2)) }},
		"integers":        {ErrDType, func() { ScaleAll([]*Tensor{CPU().As(Int32).Ones(2)}, Ones()) }},
		"to integers":     {ErrDType, func() { CastAll([]*Tensor{Ones(2)}, Int32) }},
		"from integers":   {ErrDType, func() { CastAll([]*Tensor{CPU().As(Int32).Ones(2)}, Float32) }},
		"a zero tensor":   {ErrArgument, func() { CastAll([]*Tensor{{}}, Float32) }},
		"norm of none":    {ErrArgument, func() { GlobalNorm([]*Tensor{nil}) }},
		"two devices":     {ErrDevice, func() { ScaleAll([]*Tensor{Ones(2), AddVirtualGPUs(1, 1<<20)[0].Ones(2)}, Ones()) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}
