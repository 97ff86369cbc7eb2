package locus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	threads "github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// updateRules has every rule with and without what it may do more.
var updateRules = map[string]Update{
	"sgd":               {Rule: UpdateSGD, Rate: 0.1},
	"sgd decay":         {Rule: UpdateSGD, Rate: 0.1, Decay: 0.01},
	"momentum":          {Rule: UpdateSGD, Rate: 0.1, Momentum: 0.9, Dampening: 0.25},
	"nesterov":          {Rule: UpdateSGD, Rate: 0.1, Momentum: 0.9, Nesterov: true, Decay: 0.01},
	"adam":              {Rule: UpdateAdam, Rate: 0.01, Momentum: 0.9, Beta: 0.999, Root: 1.7, Eps: 1e-8, Decay: 0.01},
	"adamw":             {Rule: UpdateAdam, Rate: 0.01, Momentum: 0.9, Beta: 0.999, Root: 1.7, Eps: 1e-8, Lose: 0.001},
	"rmsprop":           {Rule: UpdateRMSProp, Rate: 0.01, Beta: 0.99, Eps: 1e-8, Decay: 0.01},
	"rmsprop momentum":  {Rule: UpdateRMSProp, Rate: 0.01, Beta: 0.99, Eps: 1e-8, Momentum: 0.9},
	"rmsprop centered":  {Rule: UpdateRMSProp, Rate: 0.01, Beta: 0.99, Eps: 1e-4, Centered: true},
	"rmsprop with both": {Rule: UpdateRMSProp, Rate: 0.01, Beta: 0.99, Eps: 1e-4, Centered: true, Momentum: 0.9},
	"adagrad":           {Rule: UpdateAdagrad, Rate: 0.1, Eps: 1e-10, Start: 0.1, Decay: 0.01},
}

// bitsOf are a tensor's bytes on the host.
func bitsOf(t *Tensor) []float64 { return ToSlice[float64](t.To(CPU()).Cast(Float64)) }

// parametersOf makes values and gradients: small, odd, empty and large ones, and
// gradients that are views with strides of their own.
func parametersOf(d Device, dt DType) (values, grads []*Tensor) {
	key := NewKey(7).Split(20)
	for i, shape := range [][]int{{3}, {}, {17, 5}, {0, 4}, {1024}, {1025}, {70000}, {64, 65}} {
		values = append(values, d.As(dt).Key(key[2*i]).Randn(shape...))
		g := d.As(dt).Key(key[2*i+1]).Randn(shape...)
		if i == 7 {
			g = d.As(dt).Key(key[2*i+1]).Randn(65, 64).T()
		}
		grads = append(grads, g)
	}
	return values, grads
}

// devicesOf are the CPU, a virtual GPU and the machine's own.
func devicesOf() (real, all []Device) {
	for i := range NumGPUs() {
		if d := GPU(i); !strings.HasPrefix(d.open("test").backend.Info().Name, "virtual") {
			real = append(real, d)
		}
	}
	return real, append(append(AddVirtualGPUs(1, 64<<20), CPU()), real...)
}

// The step of all parameters is to the bit what single ops give for each, on any number
// of threads.
func TestUpdateAllIsWhatSingleOpsGive(t *testing.T) {
	defer threads.SetThreads(threads.SetThreads(0))
	real, all := devicesOf()
	for _, d := range all {
		for _, dt := range []DType{Float32, Float64, BFloat16} {
			if dt == BFloat16 && slices.Contains(real, d) {
				continue // there single ops round oftener
			}
			for name, u := range updateRules {
				t.Run(fmt.Sprint(d, " ", dt, " ", name), func(t *testing.T) {
					values, grads := parametersOf(d, dt)
					list := make([]Updating, len(values))
					single := make([][]*Tensor, len(values)) // value and slots
					for i, v := range values {
						list[i], single[i] = Updating{Value: v.Copy(), Free: true}, []*Tensor{v}
					}
					factor := d.As(dt).Full(0.375)
					for step := range 4 {
						threads.SetThreads(1 + 2*step)
						u.Rate *= 0.9
						var f *Tensor
						for i := range list {
							g := grads[i]
							list[i].Grad = g
							if step == 2 {
								f = factor
								g = g.Mul(f)
							}
							a := u.attrs()
							a.First = step == 0
							single[i] = updateOne(a, single[i][0], g, single[i][1:])
						}
						list = UpdateAll(u, list, f, nil)
						for i, x := range list {
							for k, got := range append([]*Tensor{x.Value}, x.Slots...) {
								want := single[i][k]
								if want.Len() == 0 {
									continue
								}
								if slices.Contains(real, d) && sameShape(got.shape, want.shape) {
									// The driver's compiler joins other products and sums into one rounding.
									if e := got.Sub(want).Abs().Max().Item(); e > 1e-6*want.Abs().Max().Item() {
										t.Fatalf("step %d, parameter %d, result %d: off by %v", step, i, k, e)
									}
									continue
								}
								if !slices.Equal(bitsOf(got), bitsOf(want)) || !sameShape(got.shape, want.shape) {
									t.Fatalf("step %d, parameter %d, result %d: other bits", step, i, k)
								}
							}
						}
					}
				})
			}
		}
	}
}

// In steady state a step lies in the memory of the step before: nothing is allocated.
func TestUpdateAllInPlace(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		values, grads := parametersOf(d, Float32)
		list := make([]Updating, len(values))
		for i := range list {
			list[i] = Updating{Value: values[i]}
			grads[i] = grads[i].Contiguous() // a device may need room to copy others
		}
		step := func() {
			for i := range list {
				list[i].Grad = grads[i]
			}
			list = UpdateAll(updateRules["adamw"], list, nil, nil)
		}
		step()
		for _, v := range values {
			if v.Freed() {
				t.Fatal("what was not marked was freed")
			}
		}
		before, old := d.MemoryStats(), list
		view := list[6].Value.Reshape(7, -1)
		for range 10 {
			step()
		}
		after := d.MemoryStats()
		if n := after.Allocations - before.Allocations; n != 0 || after.InUse > before.InUse { // the collector may find something of before
			t.Errorf("%s: ten steps made %d allocations and %d frees; %d bytes more are in use", d, n, after.Frees-before.Frees, after.InUse-before.InUse)
		}
		if err := Try(func() { view.Sum() }); !errors.Is(err, ErrFreed) {
			t.Errorf("a view of an old value: %v", err)
		}
		for _, x := range old {
			for _, o := range append([]*Tensor{x.Value}, x.Slots...) {
				if !o.Freed() {
					t.Error("an old value is not freed")
				}
			}
		}
	}
}

// What somebody reads is left alone, and freed when it is let go.
func TestUpdateAllLeavesWhatIsHeld(t *testing.T) {
	v := Ones(3000)
	list := UpdateAll(updateRules["momentum"], []Updating{{Value: v, Grad: Ones(3000), Free: true}}, nil, nil)
	held := list[0].Value
	held.hold("test")
	was := held.view()
	first := *(*float32)(was.Block.Ptr)
	list[0].Grad = Ones(3000)
	next := UpdateAll(updateRules["momentum"], list, nil, nil)
	if got := *(*float32)(was.Block.Ptr); got != first {
		t.Errorf("a value that is held went from %v to %v", first, got)
	}
	if !held.Freed() || next[0].Value.Freed() || next[0].Value.block.Ptr == was.Block.Ptr {
		t.Error("the old value must be freed, the new one in memory of its own")
	}
	held.letGo()
}

// Operands that share memory: each result is what it would be alone.
func TestUpdateAllOfSharedMemory(t *testing.T) {
	make := func() *Tensor { return CPU().Key(NewKey(3)).Randn(50, 50) }
	u := updateRules["sgd"]
	alone := bitsOf(UpdateAll(u, []Updating{{Value: make(), Grad: make().T()}}, nil, nil)[0].Value)
	v := make()
	if got := UpdateAll(u, []Updating{{Value: v, Grad: v.T(), Free: true}}, nil, nil)[0].Value; !slices.Equal(bitsOf(got), alone) {
		t.Error("a parameter that is a view of its own gradient")
	}
	if !v.Freed() {
		t.Error("the old value is not freed")
	}
	v = make()
	if got := UpdateAll(u, []Updating{{Value: v, Grad: make().T(), Free: true}, {Value: v.Detach(), Grad: make().T(), Free: true}}, nil, nil); !slices.Equal(bitsOf(got[0].Value), alone) || !slices.Equal(bitsOf(got[1].Value), alone) {
		t.Error("two parameters of one value")
	}
	v = make()
	was := bitsOf(v)
	err := Try(func() {
		UpdateAll(u, []Updating{{Value: v, Grad: make(), Free: true}, {Value: v, Grad: make(), Free: true}}, nil, nil)
	})
	if !errors.Is(err, ErrFreed) {
		t.Errorf("one tensor twice: %v", err)
	}
	if v.Freed() || !slices.Equal(bitsOf(v), was) {
		t.Error("a step that was refused changed its operand")
	}
}

// A step that finds no memory changes nothing, and can be taken later.
func TestUpdateAllOutOfMemory(t *testing.T) {
	d := AddVirtualGPUs(1, 1<<20)[0]
	v, g := d.Ones(50_000), d.Ones(50_000)
	small := d.Ones(100)
	big := d.Zeros(100_000)
	list := []Updating{{Value: small, Grad: d.Ones(100), Free: true}, {Value: v, Grad: g, Free: true}}
	before := d.MemoryStats().InUse
	if err := Try(func() { UpdateAll(updateRules["adamw"], list, nil, nil) }); !errors.Is(err, ErrOutOfMemory) {
		t.Fatalf("got %v", err)
	}
	if small.Freed() || v.Freed() || v.Sum().Item() != 50_000 || small.Sum().Item() != 100 {
		t.Error("a step that failed changed something")
	}
	d.Collect()
	if after := d.MemoryStats().InUse; after > before+1<<10 {
		t.Errorf("%d bytes are in use, then %d", before, after)
	}
	big.Free()
	list = UpdateAll(updateRules["adamw"], list, nil, nil)
	if !v.Freed() || list[1].Value.Index(0).Item() >= 1 {
		t.Error("the step was not taken")
	}
}

// A choice that is false changes nothing; what is remembered begins with zeros.
func TestUpdateAllGated(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		no, yes := d.Zeros().Ne(0), d.Zeros().Eq(0)
		for name, u := range updateRules {
			v := d.Key(NewKey(5)).Randn(2000)
			want := bitsOf(v)
			g := d.Full(2, 2000)
			list := UpdateAll(u, []Updating{{Value: v, Grad: g, Free: true}}, nil, no)
			for k, s := range list[0].Slots {
				if s.Abs().Max().Item() != 0 {
					t.Errorf("%s: slot %d is not 0", name, k)
				}
			}
			list[0].Grad = d.Full(float64(NaN()), 2000)
			list = UpdateAll(u, list, nil, no)
			if !slices.Equal(bitsOf(list[0].Value), want) {
				t.Errorf("%s: the value changed", name)
			}
			list[0].Grad = g
			if list = UpdateAll(u, list, nil, yes); slices.Equal(bitsOf(list[0].Value), want) {
				t.Errorf("%s: the value did not change", name)
			}
		}
	}
}

// NaN is no number.
func NaN() float32 { return float32(ToSlice[float32](Zeros().Log().Sub(Zeros().Log()))[0]) }

func TestUpdateAllRefuses(t *testing.T) {
	one := func(n int) Updating { return Updating{Value: Ones(n), Grad: Ones(n)} }
	withSlots := one(3)
	withSlots.Slots = []*Tensor{Ones(3)}
	momentum := updateRules["momentum"]
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"nothing":         {ErrArgument, func() { UpdateAll(Update{}, nil, nil, nil) }},
		"no value":        {ErrArgument, func() { UpdateAll(Update{}, []Updating{{Grad: Ones(3)}}, nil, nil) }},
		"no gradient":     {ErrArgument, func() { UpdateAll(Update{}, []Updating{{Value: Ones(3)}}, nil, nil) }},
		"some with slots": {ErrArgument, func() { UpdateAll(momentum, []Updating{withSlots, one(3)}, nil, nil) }},
		"two types": {ErrDType, func() {
			UpdateAll(Update{}, []Updating{one(3), {Value: CPU().As(Float64).Ones(3), Grad: CPU().As(Float64).Ones(3)}}, nil, nil)
		}},
		"two shapes": {ErrShape, func() { UpdateAll(Update{}, []Updating{{Value: Ones(3), Grad: Ones(4)}}, nil, nil) }},
		"integers": {ErrDType, func() {
			UpdateAll(Update{}, []Updating{{Value: CPU().As(Int32).Ones(3), Grad: CPU().As(Int32).Ones(3)}}, nil, nil)
		}},
		"a factor of two":    {ErrShape, func() { UpdateAll(Update{}, []Updating{one(3)}, Ones(2), nil) }},
		"no bool":            {ErrDType, func() { UpdateAll(Update{}, []Updating{one(3)}, nil, Ones()) }},
		"no such rule":       {ErrArgument, func() { UpdateAll(Update{Rule: 9}, []Updating{one(3)}, nil, nil) }},
		"lists that differ":  {ErrArgument, func() { AverageAll([]*Tensor{Ones(2)}, nil, 0.9) }},
		"a decay of 2":       {ErrArgument, func() { AverageAll([]*Tensor{Ones(2)}, []*Tensor{Ones(2)}, 2) }},
		"a missing average":  {ErrArgument, func() { AverageAll([]*Tensor{nil}, []*Tensor{Ones(2)}, 0.5) }},
		"a limit of nothing": {ErrArgument, func() { ClipFactor(Ones(), 0) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}

func TestAverageAll(t *testing.T) {
	values := []*Tensor{CPU().Key(NewKey(1)).Randn(300), CPU().As(Float64).Key(NewKey(2)).Randn(40, 30), CPU().Key(NewKey(3)).Randn(5)}
	averages := make([]*Tensor, len(values))
	want := make([][]float64, len(values))
	decay := 0.9
	for i, v := range values {
		averages[i] = v.Mul(3)
		want[i] = bitsOf(averages[i].Blend(decay, v, 1-decay))
	}
	before := CPU().MemoryStats().Allocations
	next := AverageAll(averages, values, decay)
	if n := CPU().MemoryStats().Allocations - before; n != 0 {
		t.Errorf("%d allocations", n)
	}
	for i, a := range next {
		if !slices.Equal(bitsOf(a), want[i]) || !averages[i].Freed() || values[i].Freed() {
			t.Errorf("average %d", i)
		}
	}
}

// The rules of the public type and of the table have one order.
func TestUpdateRulesAgree(t *testing.T) {
	for public, table := range map[UpdateRule]op.Rule{UpdateSGD: op.SGDRule, UpdateAdam: op.AdamRule, UpdateRMSProp: op.RMSPropRule, UpdateAdagrad: op.AdagradRule} {
		if uint8(public) != uint8(table) {
			t.Errorf("%v is %v", public, table)
		}
	}
}
