package optest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus"
)

// form is a way to compute an op whose gradients must be those of the plain call.
type form struct {
	name string
	// input makes an operand that has a gradient.
	input func(leaf *locus.Tensor) *locus.Tensor
	call  func(c *Case, o *Op, d locus.Device, in []*locus.Tensor) []*locus.Tensor
}

func itself(t *locus.Tensor) *locus.Tensor { return t }

// forms lists the ways in which ops are tried.
var forms = []form{
	{"plain", itself, (*Case).Call},
	{"of results", func(t *locus.Tensor) *locus.Tensor { return t.Mul(1) }, (*Case).Call},
	{"checkpointed", itself, checkpointed},
}

// checkpointed computes the op inside Checkpoint, its results in one vector.
func checkpointed(c *Case, o *Op, d locus.Device, in []*locus.Tensor) []*locus.Tensor {
	var shapes [][]int
	all := locus.Checkpoint(func(in ...*locus.Tensor) *locus.Tensor {
		var flat []*locus.Tensor
		shapes = nil
		for k, t := range c.Call(o, d, in) {
			if t.DType() != locus.Float64 || slices.Contains(o.Detached, k) {
				shapes = append(shapes, nil)
				continue
			}
			shapes, flat = append(shapes, append([]int{}, t.Shape()...)), append(flat, t.Flatten())
		}
		return locus.Concat(0, append(flat, d.As(locus.Float64).Zeros(1))...)
	}, in...)
	out := c.Call(o, d, detached(in)) // for the results that have no gradient
	at := 0
	for k, s := range shapes {
		if s != nil {
			n := out[k].Len()
			out[k] = all.Narrow(0, at, at+n).Reshape(s...)
			at += n
		}
	}
	return out
}

func detached(in []*locus.Tensor) []*locus.Tensor {
	l := make([]*locus.Tensor, len(in))
	for i, t := range in {
		l[i] = t.Detach()
	}
	return l
}

// subsets lists the sets of n inputs that are tried: all of them if they are few.
func subsets(n int) [][]int {
	var l [][]int
	for s := 1; s < 1<<n; s++ {
		var set []int
		for i := range n {
			if s>>i&1 == 1 {
				set = append(set, i)
			}
		}
		if n <= 4 || len(set) == 1 || len(set) >= n-1 {
			l = append(l, set)
		}
	}
	return l
}

func pick(l []*locus.Tensor, set []int) []*locus.Tensor {
	p := make([]*locus.Tensor, len(set))
	for i, j := range set {
		p[i] = l[j]
	}
	return p
}

// TestHigherGradients takes, of every differentiable op in several forms, the
// gradient with respect to every set of its inputs with CreateGraph, and the
// gradients of that with respect to all and to single ones, and compares them
// with central differences. Neither seeds nor weights have a history here, so
// that what is computed with them alone has none either. Before and after, the
// gradient is taken again with RetainGraph, and at last with FreeGraph.
func TestHigherGradients(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		n := 0
		eachSmooth(t, func(c *Case, o *Op) {
			for _, f := range forms {
				if err := guarded(func() {
					sets, err := higherGradients(c, o, d, f)
					if err != nil {
						t.Errorf("%s%s, %s: %v", c, describe(c), f.name, err)
					}
					n += sets
				}); err != nil {
					t.Errorf("%s%s, %s: %v", c, describe(c), f.name, err)
				}
			}
		})
		t.Logf("%d sets of inputs", n)
	})
}

func higherGradients(c *Case, o *Op, d locus.Device, f form) (sets int, err error) {
	in := c.Inputs(d, locus.Float64)
	plain := gradients(c, o, d, in)
	all, wanted := leaves(c, in)
	k := 0
	for i := range all {
		if c.In[i].Grad {
			all[i] = f.input(all[i])
			wanted[k] = all[i]
			k++
		}
	}
	out := f.call(c, o, d, all)
	weights := weightsOf(o, out)
	for k, t := range out {
		if weights[k] != nil && len(wanted) > 0 && !t.RequiresGrad() {
			return 0, fmt.Errorf("result %d has no history", k)
		}
	}
	loss := weighted(out, weights)
	if loss == nil {
		return 0, nil
	}
	again := func(opt locus.GradOption) error {
		if got := locus.Grad([]*locus.Tensor{loss}, wanted, opt); !near(got, plain, plain) {
			return fmt.Errorf("gradients with option %d are not those of a plain call", opt)
		}
		return nil
	}
	if err := again(locus.RetainGraph); err != nil {
		return 0, err
	}
	for _, set := range subsets(len(wanted)) {
		sets++
		if err := secondOf(c, o, d, in, loss, wanted, set, plain); err != nil {
			return sets, fmt.Errorf("gradient with respect to inputs %v: %w", set, err)
		}
	}
	if err := again(locus.RetainGraph); err != nil {
		return sets, fmt.Errorf("after gradients of gradients: %w", err)
	}
	if err := again(locus.FreeGraph); err != nil {
		return sets, err
	}
	for i, t := range all {
		if t.Freed() {
			return sets, fmt.Errorf("input %d was freed", i)
		}
	}
	return sets, nil
}

// secondOf checks the gradients of Σ u·g, where g are the gradients of the
// inputs in set and u are directions: they are the change of all gradients
// along u.
func secondOf(c *Case, o *Op, d locus.Device, in []*locus.Tensor, loss *locus.Tensor, wanted []*locus.Tensor, set []int, plain []*locus.Tensor) error {
	grads := locus.Grad([]*locus.Tensor{loss}, pick(wanted, set), locus.CreateGraph)
	if !near(grads, pick(plain, set), plain) {
		return fmt.Errorf("it is not that of a plain call")
	}
	u := make([]*locus.Tensor, len(wanted))
	var along *locus.Tensor
	for i, g := range grads {
		u[set[i]] = direction(g, set[i])
		s := g.Mul(u[set[i]]).Sum()
		if along == nil {
			along = s
		} else {
			along = along.Add(s)
		}
	}
	moved := func(by float64) []*locus.Tensor {
		m := append([]*locus.Tensor(nil), in...)
		k := 0
		for i := range in {
			if c.In[i].Grad {
				if u[k] != nil {
					m[i] = in[i].Add(u[k].Mul(by))
				}
				k++
			}
		}
		return gradients(c, o, d, m)
	}
	up, down := moved(step), moved(-step)
	want := make([]*locus.Tensor, len(wanted))
	for i := range want {
		want[i] = up[i].Sub(down[i]).Div(2 * step)
	}
	if !along.RequiresGrad() { // then the gradient is constant
		for i, w := range want {
			if largest(values(w)) > absTolerance*(1+largest(values(plain[i]))) {
				return fmt.Errorf("it has no history, but changes by %v", largest(values(w)))
			}
		}
		return nil
	}
	got := locus.Grad([]*locus.Tensor{along}, wanted, locus.RetainGraph)
	for i := range got {
		if err := closeTo(values(got[i]), values(want[i]), relTolerance, absTolerance*(1+largest(values(plain[i])))); err != nil {
			return fmt.Errorf("its gradient %d %w by finite differences", i, err)
		}
		if one := locus.Grad([]*locus.Tensor{along}, wanted[i:i+1], locus.RetainGraph); !near(one, got[i:i+1], got) {
			return fmt.Errorf("its gradient %d differs when asked for alone", i)
		}
	}
	return nil
}

// near compares tensors that are computed in another order, up to rounding of
// the size of the numbers in scale.
func near(got, want, scale []*locus.Tensor) bool {
	size := 1.0
	for _, t := range scale {
		size = max(size, largest(values(t)))
	}
	for i := range want {
		if closeTo(values(got[i]), values(want[i]), 1e-12, 1e-12*size) != nil {
			return false
		}
	}
	return true
}
