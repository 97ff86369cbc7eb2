package optest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus"
)

// vmapSlices is how many slices of a case are mapped over.
const vmapSlices = 3

// vmapped are the arguments of a Vmap of a case: the operands in batched have an axis
// for the slices, and differ between them as far as they may.
func vmapped(in []*locus.Tensor, batched []bool) []*locus.Tensor {
	var args []*locus.Tensor
	for i, t := range in {
		if t == nil || !batched[i] {
			continue
		}
		slices := make([]*locus.Tensor, vmapSlices)
		for k := range slices {
			slices[k] = t
			if k > 0 && t.Rank() > 0 && t.Len() > 0 { // other elements that the op accepts as well
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

// vmapClose compares a tensor with the loop's.
func vmapClose(o *Op, got, want *locus.Tensor, scale float64) error {
	if got.DType() != want.DType() || !slices.Equal(got.Shape(), want.Shape()) {
		return fmt.Errorf("is %s %v, want %s %v", got.DType(), got.Shape(), want.DType(), want.Shape())
	}
	if got.IsView() {
		return fmt.Errorf("is a view")
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
				args := vmapped(in, batched)
				f := func(k int) func(args ...*locus.Tensor) *locus.Tensor {
					return func(args ...*locus.Tensor) *locus.Tensor { return c.Call(o, d, operands(in, batched, args))[k] }
				}
				for k := range c.Out {
					var want, got *locus.Tensor
					if err := guarded(func() { want = loop(f(k), args) }); err != nil {
						continue // rolled operands are not accepted, or the slices differ in shape
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
