package optest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/locusml/locus"
)

// leaves makes handles of a case's operands to which gradients flow, where
// they have one.
func leaves(c *Case, in []*locus.Tensor) (all, wanted []*locus.Tensor) {
	all = append(all, in...)
	for i := range c.In {
		if c.In[i].Grad {
			all[i] = in[i].RequireGrad()
			wanted = append(wanted, all[i])
		}
	}
	return all, wanted
}

// weighted returns the weighted sum of the results that are floats, or nil if it
// depends on no operand.
func weighted(out, weights []*locus.Tensor) *locus.Tensor {
	var loss *locus.Tensor
	for k, t := range out {
		if weights[k] == nil || !t.RequiresGrad() {
			continue
		}
		s := t.Mul(weights[k]).Sum()
		if loss == nil {
			loss = s
		} else {
			loss = loss.Add(s)
		}
	}
	return loss
}

// weightsOf returns the weights of the results that gradients may come from, nil
// for the others.
func weightsOf(o *Op, out []*locus.Tensor) []*locus.Tensor {
	w := make([]*locus.Tensor, len(out))
	for k, t := range out {
		if t.DType().IsFloat() && !slices.Contains(o.Detached, k) {
			w[k] = Weight(t, k)
		}
	}
	return w
}

// gradients returns the gradients of the weighted sum with respect to the
// operands that have one.
func gradients(c *Case, o *Op, d locus.Device, in []*locus.Tensor, opts ...locus.GradOption) []*locus.Tensor {
	all, wanted := leaves(c, in)
	out := c.Call(o, d, all)
	loss := weighted(out, weightsOf(o, out))
	if loss == nil {
		grads := make([]*locus.Tensor, len(wanted))
		for i, t := range wanted {
			grads[i] = t.ZerosLike()
		}
		return grads
	}
	return locus.Grad([]*locus.Tensor{loss}, wanted, opts...)
}

// TestGradients compares gradients with PyTorch's in float32 and float64, on
// every device; the virtual GPU's with the CPU's bit by bit.
func TestGradients(t *testing.T) {
	cpu := map[*Case][][]byte{}
	n := 0
	onDevices(t, func(t *testing.T, d locus.Device) {
		for i, c := range records(t) {
			o := lookup(t, c)
			if c.Grad == nil || !o.Differentiable() || i%every(5) != 0 {
				continue
			}
			n++
			if err := guarded(func() {
				grads := gradients(c, o, d, c.Inputs(d, c.DType))
				for k, g := range grads {
					if err := c.Grad[k].check(g, o, 1); err != nil {
						t.Errorf("%s%s: gradient %d %v", c, describe(c), k, err)
					}
					if g.Device() != d {
						t.Errorf("%s: gradient %d is on %s", c, k, g.Device())
					}
				}
				if free := gradients(c, o, d, c.Inputs(d, c.DType), locus.FreeGraph); !sameBits(bits(grads), bits(free)) {
					t.Errorf("%s: gradients with FreeGraph differ", c)
				}
				switch {
				case d == locus.CPU():
					cpu[c] = bits(grads)
				case d == virtual && !sameBits(cpu[c], bits(grads)):
					t.Errorf("%s: the virtual GPU's gradient is not the CPU's", c)
				}
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
		}
	})
	t.Logf("%d gradients compared", n)
	checked := map[string]bool{}
	for _, c := range records(t) {
		if c.Grad != nil && c.Smooth && c.DType == locus.Float64 {
			checked[c.Op] = true
		}
	}
	for name, o := range table() {
		if o.Differentiable() && !checked[name] {
			t.Errorf("%s is differentiable, but no record is fit for finite differences", name)
		}
	}
}

// Finite differences in float64, with the tolerances of PyTorch's gradcheck.
const (
	step         = 1e-6
	absTolerance = 1e-5
	relTolerance = 1e-3
)

// eachSmooth calls f with the float64 cases that are fit for finite differences.
func eachSmooth(t *testing.T, f func(c *Case, o *Op)) {
	for i, c := range records(t) {
		o := lookup(t, c)
		if c.DType == locus.Float64 && c.Smooth && o.Differentiable() && i%every(7) == 0 {
			f(c, o)
		}
	}
}

// TestFiniteDifferences checks every element of every gradient of every
// differentiable op against central differences.
func TestFiniteDifferences(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		elements := 0
		eachSmooth(t, func(c *Case, o *Op) {
			if err := guarded(func() {
				in := c.Inputs(d, locus.Float64)
				grads := gradients(c, o, d, in)
				k := 0
				for i := range in {
					if !c.In[i].Grad {
						continue
					}
					want := differences(c, o, d, in, i)
					if err := closeTo(values(grads[k]), want, relTolerance, absTolerance); err != nil {
						t.Errorf("%s%s: gradient %d %v by finite differences", c, describe(c), k, err)
					}
					elements += len(want)
					k++
				}
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
		})
		t.Logf("%d elements of gradients checked by finite differences", elements)
	})
}

// differences returns the change of the weighted sum with each element of operand i.
func differences(c *Case, o *Op, d locus.Device, in []*locus.Tensor, i int) []float64 {
	base := values(in[i])
	moved := append([]*locus.Tensor(nil), in...)
	var weights []*locus.Tensor
	at := func(j int, by float64) float64 {
		x := append([]float64(nil), base...)
		x[j] += by
		moved[i] = d.From(x).Reshape(in[i].Shape()...)
		out := c.Call(o, d, moved)
		if weights == nil {
			weights = weightsOf(o, out)
		}
		sum := 0.0
		for k, t := range out {
			if weights[k] != nil {
				sum += t.Mul(weights[k]).Sum().Item()
			}
		}
		return sum
	}
	want := make([]float64, len(base))
	for j := range base {
		want[j] = (at(j, step) - at(j, -step)) / (2 * step)
	}
	return want
}

// TestSecondOrder checks gradients of gradients. With g the gradient of Σ w·f(x)
// and a direction u, the gradient of g·u with respect to x is the change of g
// along u, and with respect to w the change of f along u; both are compared
// with central differences.
func TestSecondOrder(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		n := 0
		eachSmooth(t, func(c *Case, o *Op) {
			if err := guarded(func() {
				if err := secondOrder(c, o, d); err != nil {
					t.Errorf("%s%s: %v", c, describe(c), err)
				}
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
			n++
		})
		t.Logf("%d cases", n)
	})
}

func secondOrder(c *Case, o *Op, d locus.Device) error {
	in := c.Inputs(d, locus.Float64)
	all, wanted := leaves(c, in)
	out := c.Call(o, d, all)
	weights := weightsOf(o, out)
	for k, w := range weights {
		if w != nil {
			weights[k] = w.RequireGrad()
		}
	}
	loss := weighted(out, weights)
	if loss == nil {
		return nil
	}
	grads := locus.Grad([]*locus.Tensor{loss}, wanted, locus.CreateGraph)
	var along *locus.Tensor
	u := make([]*locus.Tensor, len(grads))
	for i, g := range grads {
		u[i] = direction(g, i)
		s := g.Mul(u[i]).Sum()
		if along == nil {
			along = s
		} else {
			along = along.Add(s)
		}
	}
	if along == nil || !along.RequiresGrad() {
		return nil
	}
	targets := append([]*locus.Tensor(nil), wanted...)
	var floats []int
	for k, w := range weights {
		if w != nil {
			targets = append(targets, w)
			floats = append(floats, k)
		}
	}
	got := locus.Grad([]*locus.Tensor{along}, targets)

	// The same along u by differences.
	shifted := func(by float64) (grads, out []*locus.Tensor) {
		moved := append([]*locus.Tensor(nil), in...)
		k := 0
		for i := range in {
			if c.In[i].Grad {
				moved[i] = in[i].Add(u[k].Mul(by))
				k++
			}
		}
		return gradients(c, o, d, moved), c.Call(o, d, moved)
	}
	gUp, fUp := shifted(step)
	gDown, fDown := shifted(-step)
	for i := range wanted {
		want := gUp[i].Sub(gDown[i]).Div(2 * step)
		if err := closeTo(values(got[i]), values(want), relTolerance, absTolerance*(1+largest(values(grads[i])))); err != nil {
			return fmt.Errorf("second gradient %d %w by finite differences", i, err)
		}
	}
	for j, k := range floats {
		want := fUp[k].Sub(fDown[k]).Div(2 * step)
		if err := closeTo(values(got[len(wanted)+j]), values(want), relTolerance, absTolerance); err != nil {
			return fmt.Errorf("gradient with respect to the weights of result %d %w by finite differences", k, err)
		}
	}
	return nil
}

// direction returns numbers in [-1, 1] that differ from Weight's.
func direction(like *locus.Tensor, k int) *locus.Tensor {
	v := make([]float64, like.Len())
	for i := range v {
		v[i] = math.Sin(float64(7*i + 3*k + 1))
	}
	return like.Device().From(v).Reshape(like.Shape()...)
}
