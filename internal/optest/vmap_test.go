package optest

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// vmapSlices is how many slices of a case are mapped over.
const vmapSlices = 3

// vmapped are the arguments of a Vmap of a case: the operands in batched have an axis
// for the slices, and differ between them as far as they may.
func vmapped(o *Op, in []*locus.Tensor, batched []bool) []*locus.Tensor {
	var args []*locus.Tensor
	for i, t := range in {
		if t == nil || !batched[i] {
			continue
		}
		slices := make([]*locus.Tensor, vmapSlices)
		for k := range slices {
			slices[k] = t
			switch { // other elements that the op accepts as well
			case k == 0 || t.Rank() == 0 || t.Len() == 0:
			case o.Matrices:
				slices[k] = t.Mul(1 + float64(k)/8)
			default:
				slices[k] = t.Roll(k, 0)
			}
		}
		args = append(args, locus.Stack(0, slices...))
	}
	return args
}

// operands puts slices back among the operands that are the same for all.
func operands(in []*locus.Tensor, batched []bool, args []*locus.Tensor) []*locus.Tensor {
	all := slices.Clone(in)
	for i, t := range in {
		if t != nil && batched[i] {
			all[i], args = args[0], args[1:]
		}
	}
	return all
}

// loop computes a function for each slice.
func loop(f func(args ...*locus.Tensor) *locus.Tensor, args []*locus.Tensor) *locus.Tensor {
	results := make([]*locus.Tensor, vmapSlices)
	for k := range results {
		parts := make([]*locus.Tensor, len(args))
		for i, a := range args {
			parts[i] = a.Index(k)
		}
		results[k] = f(parts...)
	}
	return locus.Stack(0, results...)
}

// vmapClose compares Vmap's result with the loop's.
func vmapClose(o *Op, got, want *locus.Tensor, scale float64) error {
	if got.IsView() {
		return fmt.Errorf("is a view")
	}
	return vmapNear(o, got, want, scale)
}

// vmapNear compares a tensor with the loop's. Sums are in another order where all slices
// are computed at once.
func vmapNear(o *Op, got, want *locus.Tensor, scale float64) error {
	if got.DType() != want.DType() || !slices.Equal(got.Shape(), want.Shape()) {
		return fmt.Errorf("is %s %v, want %s %v", got.DType(), got.Shape(), want.DType(), want.Shape())
	}
	if !want.DType().IsFloat() {
		return closeTo(values(got), values(want), 0, 0)
	}
	rel, ofLargest := allowed(want.DType(), o)
	w := values(want)
	return closeTo(values(got), w, 2*rel, 2*ofLargest*max(largest(w), scale))
}

// vmapChoices lists which operands have slices: all, and of several each alone.
func vmapChoices(in []*locus.Tensor) [][]bool {
	all := make([]bool, len(in))
	n := 0
	for i, t := range in {
		if t != nil && t.Rank() < locus.MaxRank {
			all[i] = true
			n++
		}
	}
	if n == 0 {
		return nil
	}
	l := [][]bool{all}
	for i := range in {
		if n > 1 && all[i] {
			one := make([]bool, len(in))
			one[i] = true
			l = append(l, one)
		}
	}
	return l
}

// TestVmap compares every op of the table over slices, and gradients through it, with
// one slice after the other.
func TestVmap(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		compared, exact := 0, 0
		for i, c := range records(t) {
			if i%every(5) != 0 {
				continue
			}
			o := lookup(t, c)
			in := c.Inputs(d, c.DType)
			for _, batched := range vmapChoices(in) {
				what := fmt.Sprint(c, describe(c), batched)
				args := vmapped(o, in, batched)
				f := func(k int) func(args ...*locus.Tensor) *locus.Tensor {
					return func(args ...*locus.Tensor) *locus.Tensor { return c.Call(o, d, operands(in, batched, args))[k] }
				}
				for k := range c.Out {
					var want, got *locus.Tensor
					if err := guarded(func() { want = loop(f(k), args) }); err != nil {
						t.Errorf("%s: one slice after the other: %v", what, err)
						continue
					}
					if o.waiting(c, d, in) {
						break // see TestVmapRefused
					}
					if err := guarded(func() { got = locus.Vmap(f(k))(args...) }); err != nil {
						t.Errorf("%s: %v", what, err)
						continue
					}
					if err := vmapClose(o, got, want, 0); err != nil {
						t.Errorf("%s: result %d %v", what, k, err)
					}
					compared++
					if sameBits(bits([]*locus.Tensor{got}), bits([]*locus.Tensor{want})) {
						exact++
					}
				}
			}
		}
		t.Logf("%d results compared, %d equal to the bit", compared, exact)
	})
}

// vmapGradient returns a function that returns the gradients of a case's weighted sum
// for the slices, one after the other in a vector.
func vmapGradient(c *Case, o *Op, d locus.Device, in []*locus.Tensor, batched []bool) func(args ...*locus.Tensor) *locus.Tensor {
	return func(args ...*locus.Tensor) *locus.Tensor {
		flat := []*locus.Tensor{d.As(c.DType).Zeros(1)}
		for _, g := range gradients(c, o, d, operands(in, batched, args)) {
			flat = append(flat, g.Flatten())
		}
		return locus.Concat(0, flat...)
	}
}

// TestVmapGradients takes gradients of every op inside of a Vmap, one for each slice, and
// through it, and compares them with one slice after the other.
func TestVmapGradients(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		n := 0
		for i, c := range records(t) {
			o := lookup(t, c)
			if c.Grad == nil || !o.Differentiable() || i%every(5) != 0 {
				continue
			}
			in := c.Inputs(d, c.DType)
			for _, batched := range vmapChoices(in) {
				if o.waiting(c, d, in) {
					continue
				}
				what := fmt.Sprint(c, describe(c), batched)
				args := vmapped(o, in, batched)
				inside := vmapGradient(c, o, d, in, batched)
				var want *locus.Tensor
				if err := guarded(func() { want = loop(inside, args) }); err != nil {
					t.Errorf("%s: one slice after the other: %v", what, err)
					continue
				}
				if err := guarded(func() {
					if err := vmapClose(o, locus.Vmap(inside)(args...), want, 1); err != nil {
						t.Errorf("%s: gradients inside: %v", what, err)
					}
					through := func(vmap func(f func(args ...*locus.Tensor) *locus.Tensor, args []*locus.Tensor) *locus.Tensor) []*locus.Tensor {
						all, wanted := leaves(c, in)
						var args []*locus.Tensor
						for j, a := range vmapped(o, in, batched) {
							args = append(args, a)
							if a.DType().IsFloat() {
								args[j] = a.RequireGrad()
								wanted = append(wanted, args[j])
							}
						}
						y := vmap(func(args ...*locus.Tensor) *locus.Tensor {
							out := c.Call(o, d, operands(all, batched, args))
							if loss := weighted(out, weightsOf(o, out)); loss != nil {
								return loss
							}
							return d.As(c.DType).Zeros()
						}, args)
						if !y.RequiresGrad() {
							return nil
						}
						return locus.Grad([]*locus.Tensor{y.Sum()}, wanted)
					}
					got := through(func(f func(args ...*locus.Tensor) *locus.Tensor, args []*locus.Tensor) *locus.Tensor {
						return locus.Vmap(f)(args...)
					})
					want := through(loop)
					if len(got) != len(want) {
						t.Errorf("%s: %d gradients, want %d", what, len(got), len(want))
						return
					}
					for k := range got {
						if err := vmapNear(o, got[k], want[k], vmapSlices); err != nil {
							t.Errorf("%s: gradient %d through it: %v", what, k, err)
						}
					}
				}); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				n++
			}
		}
		t.Logf("%d gradients compared", n)
	})
}

// vmapRecords yields every so-many-th record that can be mapped, with its operands on the
// CPU.
func vmapRecords(t *testing.T, every int) iter.Seq2[*Case, []*locus.Tensor] {
	return func(yield func(*Case, []*locus.Tensor) bool) {
		for i, c := range records(t) {
			if i%every != 0 {
				continue
			}
			in := c.Inputs(locus.CPU(), c.DType)
			if len(vmapChoices(in)) == 0 || lookup(t, c).waiting(c, locus.CPU(), in) {
				continue
			}
			if !yield(c, in) {
				return
			}
		}
	}
}

// TestVmapNested maps every op over two axes: both operands over both, or the first over
// the outer and the others over the inner.
func TestVmapNested(t *testing.T) {
	n := 0
	d := locus.CPU()
	for c, in := range vmapRecords(t, every(3)*2) {
		o, choices := lookup(t, c), vmapChoices(in)
		pairs := [][2][]bool{{choices[0], choices[0]}}
		if len(choices) > 2 {
			pairs = append(pairs, [2][]bool{choices[1], choices[2]}, [2][]bool{choices[2], choices[1]})
		}
		for _, p := range pairs {
			type vmap func(f func(args ...*locus.Tensor) *locus.Tensor, args []*locus.Tensor) *locus.Tensor
			over := func(v vmap) *locus.Tensor {
				return v(func(args ...*locus.Tensor) *locus.Tensor {
					outer := operands(in, p[0], args)
					return v(func(args ...*locus.Tensor) *locus.Tensor { return c.Call(o, d, operands(outer, p[1], args))[0] }, vmapped(o, outer, p[1]))
				}, vmapped(o, in, p[0]))
			}
			var want *locus.Tensor
			if err := guarded(func() { want = over(loop) }); err != nil {
				t.Errorf("%s%s%v: one slice after the other: %v", c, describe(c), p, err)
				continue
			}
			n++
			if err := guarded(func() {
				got := over(func(f func(args ...*locus.Tensor) *locus.Tensor, args []*locus.Tensor) *locus.Tensor {
					return locus.Vmap(f)(args...)
				})
				if err := vmapClose(o, got, want, 0); err != nil {
					t.Errorf("%s%s%v: %v", c, describe(c), p, err)
				}
			}); err != nil {
				t.Errorf("%s%s%v: %v", c, describe(c), p, err)
			}
		}
	}
	t.Logf("%d results compared", n)
}

// TestVmapRefused makes sure that ops whose shape depends on elements say so.
func TestVmapRefused(t *testing.T) {
	n := 0
	for _, c := range records(t) {
		d := locus.CPU()
		o := lookup(t, c)
		in := c.Inputs(d, c.DType)
		if !o.waiting(c, d, in) {
			continue
		}
		var e *locus.Error
		batched := vmapChoices(in)[0]
		err := guarded(func() {
			locus.Vmap(func(args ...*locus.Tensor) *locus.Tensor { return c.Call(o, d, operands(in, batched, args))[0] })(vmapped(o, in, batched)...)
		})
		if !errors.As(err, &e) || !errors.Is(err, locus.ErrArgument) || !strings.HasSuffix(c.Op, e.Op) || !strings.Contains(e.Msg, "inside Vmap") {
			t.Errorf("%s: %v", c, err)
		}
		n++
	}
	if n == 0 {
		t.Error("no op depends on elements")
	}
}

// TestVmapCompiled compares a Vmap of every op with the same compiled, bit by bit.
func TestVmapCompiled(t *testing.T) {
	d := locus.CPU()
	for c, in := range vmapRecords(t, every(5)*4) {
		o, choices := lookup(t, c), vmapChoices(in)
		args := vmapped(o, in, choices[0])
		f := func(args ...*locus.Tensor) []*locus.Tensor {
			return one(locus.Vmap(func(args ...*locus.Tensor) *locus.Tensor { return c.Call(o, d, operands(in, choices[0], args))[0] })(args...))
		}
		if err := guarded(func() { checkCompiled(t, c.String()+describe(c), f, args, unkeyed[c.Op]) }); err != nil {
			t.Errorf("%s%s: %v", c, describe(c), err)
		}
	}
}

// TestVmapMoves moves slices to another device and back, with their gradients.
func TestVmapMoves(t *testing.T) {
	x := locus.CPU().Key(locus.NewKey(1)).Randn(3, 4, 2).RequireGrad()
	f := func(a ...*locus.Tensor) *locus.Tensor {
		return a[0].T().To(virtual).Exp().CopyTo(locus.CPU()).Mul(a[0].T())
	}
	args := []*locus.Tensor{x}
	got, want := locus.Vmap(f)(x), loop(f, args)
	if !sameBits(bits([]*locus.Tensor{got}), bits([]*locus.Tensor{want})) {
		t.Errorf("%v, want %v", got, want)
	}
	a, b := locus.GradOf(got.Square().Sum(), x), locus.GradOf(want.Square().Sum(), x)
	if !a[0].AllClose(b[0], 1e-5, 1e-6) {
		t.Errorf("gradient %v, want %v", a[0], b[0])
	}
}
