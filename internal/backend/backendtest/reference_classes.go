package backendtest

import (
	"math"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// classRow is the largest element of a row of scores and Σeˣ⁻ᵐ.
func classRow(x []float64) (m, sum float64) {
	m = math.Inf(-1)
	for _, v := range x {
		m = math.Max(m, v)
	}
	for _, v := range x {
		sum += math.Exp(v - m)
	}
	return m, sum
}

func crossEntropy(e *expected, in []*array) {
	x, classes := in[0], in[1].ints
	c := x.shape[1]
	e.units = max(e.units, lengthUnits(c))
	e.halves = 0
	for _, s := range op.Get(op.CrossEntropy).More(nil, []op.Spec{{DType: x.dtype, Shape: x.shape}, {DType: in[1].dtype, Shape: in[1].shape}}) {
		e.more = append(e.more, further(s, e.units))
	}
	for i, k := range classes {
		row := x.floats[i*c : (i+1)*c]
		m, sum := classRow(row)
		e.floats[i] = math.Log(sum) + m - row[k]
		e.scale[i] = 1 + math.Abs(m-row[k])
		e.more[0].floats[i], e.more[1].floats[i] = m, 1/sum
	}
}

func crossEntropyGrad(e *expected, in []*array) {
	x, classes, g, m, r := in[0], in[1].ints, in[2].floats, in[3].floats, in[4].floats
	c := x.shape[1]
	e.units = max(e.units, 16)
	for i, k := range classes {
		for j := range c {
			p := math.Exp(x.floats[i*c+j]-m[i]) * r[i]
			e.floats[i*c+j], e.scale[i*c+j] = g[i]*p, math.Abs(g[i]*p)
			if j == int(k) {
				e.floats[i*c+j] = g[i] * (p - 1)
				e.scale[i*c+j] = math.Abs(g[i]) * (p + 1)
			}
		}
	}
}

// completeClasses fills in what cross_entropy saves.
func completeClasses(c sample.Sample, tensors []sample.Tensor) {
	n := c.In[0].Shape[1]
	for i := range tensors[3].Floats {
		m, sum := classRow(tensors[0].Floats[i*n : (i+1)*n])
		tensors[3].Floats[i] = sample.PutFloat(tensors[3].DType, tensors[3].Bytes, i, m)
		tensors[4].Floats[i] = sample.PutFloat(tensors[4].DType, tensors[4].Bytes, i, 1/sum)
	}
}
