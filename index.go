package locus

import (
	"github.com/locusml/locus/internal/op"
)

// Gather chooses one element at a time along an axis: for axis 0 of a matrix,
// result[i][j] = t[index[i][j]][j].
func (t *Tensor) Gather(axis int, index *Tensor) *Tensor {
	t.check("Gather")
	return apply(op.Gather, op.Axis{Axis: t.axis("Gather", axis)}, t, index)
}

// Take chooses whole slices along an axis; index may have any shape, which takes
// the axis's place in the result. Take(0, index) looks rows up.
func (t *Tensor) Take(axis int, index *Tensor) *Tensor {
	t.check("Take")
	return t.take(t.axis("Take", axis), index)
}

func (t *Tensor) take(axis int, index *Tensor) *Tensor {
	y := apply(op.Take, op.Axis{Axis: axis}, t, index)
	if y.Len() == 0 {
		indices("Take", t.shape[axis], index, t, index)
	}
	return y
}

// ScatterAdd returns t with src's elements added where index says: for axis 0 of
// a matrix, result[index[i][j]][j] += src[i][j].
func (t *Tensor) ScatterAdd(axis int, index, src *Tensor) *Tensor {
	t.check("ScatterAdd")
	return t.addAt(op.ScatterAdd, t.axis("ScatterAdd", axis), index, src)
}

// Scatter returns t with src's elements, or a Go number, put where index says: for
// axis 0 of a matrix, result[index[i][j]][j] = src[i][j]. If several elements go to
// one place, the last along the axis stays and the gradient flows to it alone, which
// PyTorch leaves undefined.
func (t *Tensor) Scatter(axis int, index *Tensor, src any) *Tensor {
	t.check("Scatter")
	index.check("Scatter")
	a := t.axis("Scatter", axis)
	s := operandOf("Scatter", t, src)
	if s.constant {
		s = t.filled(s, index.shape)
	}
	return t.addAt(op.Scatter, a, index, s)
}

// filled is a tensor on t's device of the given shape, all of whose elements are the
// constant c; it takes the memory of one.
func (t *Tensor) filled(c *Tensor, shape []int) *Tensor {
	yes := t.beside(t.place.device.As(Bool).Ones())
	return apply(op.Where, nil, yes, c, c).expand(shape)
}

// IndexAdd returns t with src's slices along an axis added at the positions that
// index names.
func (t *Tensor) IndexAdd(axis int, index, src *Tensor) *Tensor {
	t.check("IndexAdd")
	return t.addAt(op.IndexAdd, t.axis("IndexAdd", axis), index, src)
}

func (t *Tensor) addAt(id op.ID, axis int, index, src *Tensor) *Tensor {
	y := apply(id, op.Axis{Axis: axis}, t, index, src)
	if y.Len() == 0 {
		indices(op.Get(id).Name, t.shape[axis], index, t, index, src)
	}
	return y
}

// OneHot turns every integer i < n into a row of n elements with a 1 at
// position i, in float32, where PyTorch's is int64. A number out of range becomes a
// row of zeros. If n is -1 it is one more than the largest number, for which OneHot
// waits: a compiled function needs n.
func (t *Tensor) OneHot(n int) *Tensor {
	t.check("OneHot")
	if t.dtype.IsFloat() || t.dtype == Bool {
		failf("OneHot", ErrDType, []*Tensor{t}, "elements are %s; want integers", t.dtype)
	}
	if n == -1 {
		t.single("OneHot")
		countable("OneHot")
		n = 0
		if t.Len() > 0 {
			n = int(t.Max().Int()) + 1
		}
		if n < 0 {
			n = 0
		}
	}
	if n < 0 {
		failf("OneHot", ErrArgument, []*Tensor{t}, "n is %d; want the number of classes, or -1 for as many as there are", n)
	}
	fits(t.place, "OneHot", Float32, append(t.Shape(), n), t)
	classes := t.place.device.As(t.dtype).Arange(float64(n))
	return t.Unsqueeze(-1).Eq(classes).Cast(Float32)
}
