package cpu

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.Float16, dtype.BFloat16} {
		register(op.ActivationGradSum, d, actGradSum)
	}
}

// actGradSum computes the gradient of an activation and then its sums: a launch is nothing
// to save here.
func actGradSum(c *backend.Call) error {
	a, d := c.Attrs.(op.GradSum), c.Out.DType
	single := backend.Call{Op: a.Grad, In: c.In, Out: c.Out}
	if c.Out.ChannelsLast() {
		single.In = slices.Clone(c.In)
		for _, v := range []*backend.View{&single.In[0], &single.In[1], &single.Out} {
			v.Shape, v.Strides = pixels(v.Shape), pixels(v.Strides)
		}
	}
	if err := table[a.Grad][d](&single); err != nil {
		return err
	}
	grad, sums, axes := c.Out, c.More[0], a.Axes
	if r := len(grad.Shape); axes == 1<<(r-1)-1 && grad.Contiguous() { // the rows of a matrix, which is how Linear's gradient adds them up
		n := grad.Shape[r-1]
		grad.Shape, grad.Strides, axes = []int{grad.Elements() / max(n, 1), n}, []int{n, 1}, op.AxesOf(0)
	}
	sums.Shape = slices.Clone(grad.Shape)
	for i := range sums.Shape {
		if axes.Has(i) {
			sums.Shape[i] = 1
		}
	}
	sums.Strides = op.Strides(sums.Shape)
	return table[op.Sum][d](&backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: axes}, In: []backend.View{grad}, Out: sums})
}
