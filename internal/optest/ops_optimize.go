package optest

import "github.com/locusml/locus"

func optimizeOps() []*Op {
	const two = "two shapes"
	return group("Updates of parameters",
		network("Tensor.Blend", func(c *Call) *tensor { return c.In[0].Blend(c.Float("a"), c.In[1], c.Float("b")) }).
			bad(locus.ErrShape, two, func(d locus.Device) { d.Ones(2, 3).Blend(1, d.Ones(3), 1) }),
		network("Tensor.BlendSquare", func(c *Call) *tensor { return c.In[0].BlendSquare(c.Float("a"), c.In[1], c.Float("b")) }).
			bad(locus.ErrShape, two, func(d locus.Device) { d.Ones(2, 3).BlendSquare(1, d.Ones(3), 1) }),
		network("Tensor.AdamStep", func(c *Call) *tensor {
			return c.In[0].AdamStep(c.In[1], c.In[2], c.Float("keep"), c.Float("rate"), c.Float("root"), c.Float("eps"))
		}).
			bad(locus.ErrShape, two, func(d locus.Device) { d.Ones(2, 3).AdamStep(d.Ones(3), d.Ones(2, 3), 1, 1, 1, 1) }),
	)
}
