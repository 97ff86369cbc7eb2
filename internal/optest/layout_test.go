package optest

import (
	"slices"
	"testing"

	"github.com/locusml/locus"
)

// layouts returns the same elements in other memory layouts.
var layouts = []struct {
	name string
	of   func(x *locus.Tensor) *locus.Tensor
}{
	{"transposed", func(x *locus.Tensor) *locus.Tensor {
		back := make([]int, x.Rank())
		for i := range back {
			back[i] = x.Rank() - 1 - i
		}
		return x.Permute(back...).Copy().Permute(back...)
	}},
	{"channels last", channelsLast},
	{"flipped", func(x *locus.Tensor) *locus.Tensor { return x.Flip().Copy().Flip() }},
	{"with gaps", func(x *locus.Tensor) *locus.Tensor { // every other element of a larger tensor, behind a first one
		if x.Rank() == locus.MaxRank {
			return x
		}
		pair := locus.Stack(-1, x.OnesLike(), x)
		return pair.Slice(append(slices.Repeat([]locus.Range{locus.All()}, x.Rank()), locus.At(1))...)
	}},
	{"cut out", func(x *locus.Tensor) *locus.Tensor {
		for i, n := range x.Shape() {
			edge := slices.Clone(x.Shape())
			edge[i] = 1
			e := x.Device().As(x.DType()).Ones(edge...)
			x = locus.Concat(i, e, x, e).Narrow(i, 1, 1+n)
		}
		return x
	}},
}

// channelsLast returns an image (N, C, H, W) that lies as (N, H, W, C) does, and others as
// they are.
func channelsLast(x *locus.Tensor) *locus.Tensor {
	if x.Rank() != 4 {
		return x
	}
	return x.Permute(0, 2, 3, 1).Copy().Permute(0, 3, 1, 2)
}

// TestLayouts checks that views have the results and gradients of contiguous tensors,
// up to the order of sums.
func TestLayouts(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		views := 0
		for i, c := range records(t) {
			o := lookup(t, c)
			if len(c.In) == 0 || i%every(7) != 0 {
				continue
			}
			if err := guarded(func() {
				in := c.Inputs(d, c.DType)
				want := c.Call(o, d, in)
				for _, l := range layouts {
					view := make([]*locus.Tensor, len(in))
					for k := range in {
						view[k] = l.of(in[k])
						if !view[k].IsContiguous() {
							views++
						}
					}
					same(t, c, o, l.name, c.Call(o, d, view), want)
					if c.Grad != nil && o.Differentiable() {
						same(t, c, o, l.name+", gradients", gradients(c, o, d, view), gradients(c, o, d, in))
					}
				}
				// Operands with axes that are repeated without memory of their own.
				stretched, copied := make([]*locus.Tensor, len(in)), make([]*locus.Tensor, len(in))
				for k, x := range in {
					if x.Len() > 0 && x.Rank() > 0 && (!o.Matrices || x.Rank() > 2) {
						x = x.Narrow(0, 0, 1).Expand(x.Shape()...)
						views++
					}
					stretched[k], copied[k] = x, x.Copy()
				}
				same(t, c, o, "stretched", c.Call(o, d, stretched), c.Call(o, d, copied))
				if c.Grad != nil && o.Differentiable() {
					same(t, c, o, "stretched, gradients", gradients(c, o, d, stretched), gradients(c, o, d, copied))
				}
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
		}
		t.Logf("%d operands were no contiguous tensors", views)
	})
}

func same(t *testing.T, c *Case, o *Op, how string, got, want []*locus.Tensor) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s %s: gave %d results, want %d", c, how, len(got), len(want))
		return
	}
	for k := range want {
		if !slices.Equal(got[k].Shape(), want[k].Shape()) || got[k].DType() != want[k].DType() {
			t.Errorf("%s %s: result %d is %v %s, want %v %s", c, how, k, got[k].Shape(), got[k].DType(), want[k].Shape(), want[k].DType())
			continue
		}
		rel, ofLargest := 0.0, 0.0
		if want[k].DType().IsFloat() {
			rel, ofLargest = allowed(want[k].DType(), o)
		}
		w := values(want[k])
		if err := closeTo(values(got[k]), w, rel, ofLargest*max(1, largest(w))); err != nil {
			t.Errorf("%s%s %s: result %d %v", c, describe(c), how, k, err)
		}
	}
}
