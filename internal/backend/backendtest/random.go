package backendtest

import (
	"slices"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
	"github.com/locusml/locus/internal/random"
)

// dice are random choices from a key.
type dice struct{ key, n uint64 }

// below returns a number from 0 to n-1.
func (d *dice) below(n int) int {
	d.n++
	return int(random.Bounded(random.Word64(d.key, d.n), uint64(n)))
}

// size returns a size that is mostly small, and rarely 0 or beyond one vector.
func (d *dice) size(most int) int {
	switch d.below(12) {
	case 0:
		return 1
	case 1:
		return d.below(2)
	case 2:
		return 1 + d.below(most)
	}
	return 1 + d.below(min(9, most))
}

func (d *dice) shape(rank int) []int {
	s := make([]int, rank)
	for i := range s {
		s[i] = d.size(max(4, 300>>(2*rank)))
	}
	return s
}

// randomSample varies a sample of the table: another shape, other layouts,
// other axes. It reports false where what it rolled makes no valid call.
func randomSample(seed uint64, i int) (sample.Sample, bool) {
	d := &dice{key: random.Split(seed, uint64(i))}
	all := op.All()
	def := all[d.below(len(all))]
	if def.Family == op.ViewFamily {
		return sample.Sample{}, false
	}
	types := sample.DTypes(def.ID)
	list := sample.Of(def.ID, types[d.below(len(types))])
	c := list[d.below(len(list))]
	for c.Big {
		c = list[d.below(len(list))]
	}
	c.Index = 1<<20 + i // other values, too
	in := slices.Clone(c.In)
	for k := range in {
		// Masked and the like depend on the place; Distinct and indices do not mind.
		layouts := []sample.Layout{sample.Scrambled, sample.Scrambled, sample.Contiguous, sample.Offset, sample.Transposed, sample.BroadcastFirst, sample.BroadcastLast}
		if def.Broadcasts() {
			layouts = append(layouts, sample.Constant, sample.BroadcastAll)
		}
		if in[k].Layout = layouts[d.below(len(layouts))]; in[k].Domain == sample.Saved {
			in[k].Layout = sample.Contiguous
		}
	}
	shape := d.shape(d.below(6))
	rank := len(shape)
	axis := 0
	if rank > 0 {
		axis = d.below(rank)
	}
	switch def.Family {
	case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		for k := range in {
			in[k].Shape = shape
		}
	case op.ReduceFamily:
		in[0].Shape = shape
		if _, ok := c.Attrs.(op.Axis); ok {
			c.Attrs = op.Axis{Axis: axis}
			if rank == 0 {
				return c, false
			}
		} else {
			c.Attrs = op.Reduce{Axes: op.AxisSet(d.below(1 << rank))}
		}
	case op.MatMulFamily:
		batch, m, k, n := d.shape(d.below(3)), d.size(40), d.size(70), d.size(40)
		in[0].Shape, in[1].Shape = append(slices.Clone(batch), m, k), append(slices.Clone(batch), k, n)
	case op.IndexFamily:
		if rank == 0 {
			return c, false
		}
		randomIndexing(d, &c, in, shape, axis)
	case op.LinalgFamily:
		// A layout that repeats elements would make the matrix singular.
		layouts := []sample.Layout{sample.Scrambled, sample.Contiguous, sample.Offset, sample.Transposed}
		in[0].Layout = layouts[d.below(len(layouts))]
	case op.FusedFamily:
		switch c.Attrs.(type) {
		case op.Axis:
			if rank == 0 {
				return c, false
			}
			c.Attrs = op.Axis{Axis: axis}
			for k := range in {
				in[k].Shape = shape
				if in[k].Domain == sample.Masked {
					in[k].Domain = sample.Ordinary
				}
			}
		case op.Normalize:
			if !randomNorm(d, &c, in, shape) {
				return c, false
			}
		case op.Epilogue:
			k, n := d.size(70), d.size(40)
			in[0].Shape, in[1].Shape = append(d.shape(d.below(4)), k), []int{n, k}
			if len(in) == 3 {
				in[2].Shape = []int{n}
			}
		}
	}
	c.In = in
	out, err := op.Check(c.Op, c.Attrs, c.Specs())
	if err != nil {
		return c, false
	}
	c.Out = out
	return c, true
}

// randomNorm changes the shape and the axes of a normalization.
func randomNorm(d *dice, c *sample.Sample, in []sample.Operand, shape []int) bool {
	a, rank := c.Attrs.(op.Normalize), len(shape)
	id, own := op.Normalized, 1
	if c.Op == op.BatchNorm || c.Op == op.BatchNormGrad {
		id = op.BatchNorm
	}
	if rank == 0 || id == op.BatchNorm && rank == 1 {
		return false
	}
	if id == op.Normalized {
		a.From = d.below(rank)
		a.Params = [2]int{d.below(a.From + 1), a.From + d.below(rank-a.From+1)}
	}
	a.Eps = 0.1
	in[0].Shape = shape
	if c.Op != id {
		in[1].Shape, own = shape, 2
		stats := a.Stats(id, op.Spec{DType: c.DType, Shape: shape})
		for k, s := range stats {
			in[len(in)-len(stats)+k].Shape = s.Shape
		}
	}
	for k := own; k < len(in) && in[k].Domain != sample.Saved; k++ {
		in[k].Shape = a.ParamShape(id, shape) // running statistics have it, too
	}
	c.Attrs = a
	return true
}

func randomIndexing(d *dice, c *sample.Sample, in []sample.Operand, shape []int, axis int) {
	rank := len(shape)
	in[0].Shape = shape
	switch c.Op {
	case op.CumSum, op.ArgSort, op.CumMax, op.CumMin:
		c.Attrs = op.Axis{Axis: axis, Reverse: d.below(2) == 1 && (c.Op == op.CumSum || c.Op == op.ArgSort)}
	case op.Padded:
		low, high, interior := make([]int, rank), make([]int, rank), make([]int, rank)
		for i := range rank {
			low[i], high[i], interior[i] = d.below(3), d.below(3), d.below(2)
		}
		p := c.Attrs.(op.Pad)
		p.Low, p.High, p.Interior = op.DimsOf(low), op.DimsOf(high), op.DimsOf(interior)
		c.Attrs = p
	case op.Concat:
		c.Attrs = op.Axis{Axis: axis}
		for k := range in {
			s := slices.Clone(shape)
			s[axis] = d.size(9)
			in[k].Shape = s
		}
	default: // gather, take and their transposes
		shape[axis] = max(1, shape[axis])
		c.Attrs = op.Axis{Axis: axis}
		in[1].Limit = shape[axis]
		if c.Op == op.Gather || c.Op == op.ScatterAdd || c.Op == op.Scatter {
			s := slices.Clone(shape)
			for i := range s {
				s[i] = d.below(s[i] + 1)
			}
			s[axis] = d.size(40)
			in[1].Shape = s
			if c.Op != op.Gather {
				in[2].Shape = s
			}
			return
		}
		in[1].Shape = d.shape(d.below(3))
		if c.Op == op.IndexAdd {
			in[2].Shape = slices.Concat(shape[:axis], in[1].Shape, shape[axis+1:])
		}
	}
}
