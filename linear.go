package locus

import "github.com/locusml/locus/internal/op"

// Linear gives x·weightᵀ + bias: x (…, in), weight (out, in) as in PyTorch, bias
// (out) or nil, result (…, out).
func Linear(x, weight, bias *Tensor) *Tensor {
	in := given(2, x, weight, bias)
	checkOperands("Linear", in)
	if len(x.shape) == 0 || len(weight.shape) != 2 || x.shape[len(x.shape)-1] != weight.shape[1] {
		failf("Linear", ErrShape, in, "x %s and weight %s do not fit: want (…, in) and (out, in)", op.ShapeString(x.shape), op.ShapeString(weight.shape))
	}
	features, out := weight.shape[1], weight.shape[0]
	if bias != nil && !sameShape(bias.shape, []int{out}) {
		failf("Linear", ErrShape, in, "bias has shape %s; weight %s wants %s", op.ShapeString(bias.shape), op.ShapeString(weight.shape), op.ShapeString([]int{out}))
	}
	lead := x.shape[:len(x.shape)-1]
	// One product of two matrices, whatever the leading axes: a batch of products
	// would repeat the weight.
	y := x.reshape([]int{op.Elements(lead), features}).MatMul(weight.T())
	if bias != nil {
		y = y.addAndFree(bias)
	}
	return y.reshape(append(append([]int{}, lead...), out))
}

// Bilinear gives Σᵢⱼ x1ᵢ·weightₒᵢⱼ·x2ⱼ + bias: x1 (…, in1), x2 (…, in2), weight
// (out, in1, in2), bias (out) or nil, result (…, out).
func Bilinear(x1, x2, weight, bias *Tensor) *Tensor {
	in := given(3, x1, x2, weight, bias)
	checkOperands("Bilinear", in)
	r := len(x1.shape)
	if r == 0 || len(x2.shape) != r || len(weight.shape) != 3 || !sameShape(x1.shape[:r-1], x2.shape[:r-1]) ||
		x1.shape[r-1] != weight.shape[1] || x2.shape[r-1] != weight.shape[2] {
		failf("Bilinear", ErrShape, in, "x1 %s, x2 %s and weight %s do not fit: want (…, in1), (…, in2) and (out, in1, in2)",
			op.ShapeString(x1.shape), op.ShapeString(x2.shape), op.ShapeString(weight.shape))
	}
	out, in1, in2 := weight.shape[0], weight.shape[1], weight.shape[2]
	if bias != nil && !sameShape(bias.shape, []int{out}) {
		failf("Bilinear", ErrShape, in, "bias has shape %s; want %s", op.ShapeString(bias.shape), op.ShapeString([]int{out}))
	}
	lead := x1.shape[:r-1]
	n := op.Elements(lead)
	half := x1.reshape([]int{n, in1}).MatMul(weight.Transpose(0, 1).reshape([]int{in1, out * in2}))
	y := half.reshape([]int{n, out, in2}).MatMul(x2.reshape([]int{n, in2, 1})).reshape([]int{n, out})
	if bias != nil {
		y = y.addAndFree(bias)
	}
	return y.reshape(append(append([]int{}, lead...), out))
}

// given lists the operands without those that were left out: all but the first
// n may be nil.
func given(n int, ts ...*Tensor) []*Tensor {
	l := make([]*Tensor, 0, len(ts))
	for i, t := range ts {
		if t != nil || i < n {
			l = append(l, t)
		}
	}
	return l
}

// addAndFree gives t + y and frees t, which nobody else holds: a product before
// its bias. The gradient of a sum needs neither.
func (t *Tensor) addAndFree(y *Tensor) *Tensor {
	sum := t.Add(y)
	t.Free()
	return sum
}
