package backendtest

import (
	"math"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// norm says which statistics and which parameters each element of x has.
type norm struct {
	stat, param   []int
	stats, params int
	count         float64 // elements of a statistic
	uses          int     // elements of a parameter
}

func newNorm(id op.ID, a op.Normalize, shape []int) *norm {
	n := &norm{stats: 1, params: 1}
	in := func(axis int) (stat, param bool) {
		if id == op.BatchNorm || id == op.BatchNormGrad {
			return axis == 1, axis == 1
		}
		return axis < a.From, axis >= a.Params[0] && axis < a.Params[1]
	}
	for axis, size := range shape {
		stat, param := in(axis)
		if stat {
			n.stats *= size
		}
		if param {
			n.params *= size
		}
	}
	for i := range op.Elements(shape) {
		s, p := 0, 0
		for axis, at := range coords(shape, i) {
			stat, param := in(axis)
			if stat {
				s = s*shape[axis] + at
			}
			if param {
				p = p*shape[axis] + at
			}
		}
		n.stat, n.param = append(n.stat, s), append(n.param, p)
	}
	n.count = float64(op.Elements(shape)) / float64(max(n.stats, 1))
	n.uses = op.Elements(shape) / max(n.params, 1)
	return n
}

// moments are the means, the mean squares of deviations from them, and the means
// of absolute values. Without a mean, deviations are from zero.
func (n *norm) moments(x []float64, rms bool) (mean, square, size []float64) {
	mean, square, size = make([]float64, n.stats), make([]float64, n.stats), make([]float64, n.stats)
	for i, v := range x {
		if !rms {
			mean[n.stat[i]] += v / n.count
		}
		size[n.stat[i]] += math.Abs(v) / n.count
	}
	for i, v := range x {
		d := v - mean[n.stat[i]]
		square[n.stat[i]] += d * d / n.count
	}
	return mean, square, size
}

// further makes an expected result of floats behind the first.
func further(s op.Spec, units float64) *expected {
	e := &expected{array: newArray(s), units: units, halves: 1}
	e.scale = make([]float64, e.len())
	return e
}

func normalize(id op.ID, a op.Normalize, e *expected, in []*array) {
	x := in[0]
	n := newNorm(id, a, x.shape)
	mean, square, size := n.moments(x.floats, a.RMS)
	e.units = max(e.units, 2*lengthUnits(int(n.count)))
	for i, v := range x.floats {
		s, p := n.stat[i], n.param[i]
		rstd := 1 / math.Sqrt(square[s]+a.Eps)
		y, scale, k := (v-mean[s])*rstd, (math.Abs(v)+size[s])*rstd, 1 // a mean errs at the size of its terms
		if a.Weight {
			y, scale, k = y*in[k].floats[p], scale*math.Abs(in[k].floats[p]), k+1
		}
		if a.Bias {
			y, scale = y+in[k].floats[p], scale+math.Abs(in[k].floats[p])
		}
		e.floats[i], e.scale[i] = y, scale
	}
	old := in[len(in)-min(2, len(in)):] // running statistics, if there are
	specs := op.Get(id).More(a, []op.Spec{{DType: x.dtype, Shape: x.shape}})
	for _, s := range specs {
		e.more = append(e.more, further(s, e.units))
	}
	stats := e.more
	if !a.RMS {
		for s := range stats[0].floats {
			stats[0].floats[s], stats[0].scale[s] = mean[s], size[s]
		}
		stats = stats[1:]
	}
	for s := range stats[0].floats {
		stats[0].floats[s] = 1 / math.Sqrt(square[s]+a.Eps)
	}
	if id == op.BatchNorm {
		for s := range stats[2].floats {
			stats[1].floats[s], stats[1].scale[s] = mean[s], size[s]
			stats[2].floats[s] = square[s] * n.count / (n.count - 1)
			stats[2].scale[s] = square[s] + 0x1p-20*size[s]*size[s] // the square of the mean's error
			if a.Running {
				for k, e := range stats[1:3] {
					was := (1 - a.Momentum) * old[k].floats[s]
					e.floats[s] = was + a.Momentum*e.floats[s]
					e.scale[s] = math.Abs(was) + a.Momentum*e.scale[s]
				}
			}
		}
	}
}

func normalizeGrad(id op.ID, a op.Normalize, e *expected, in []*array) {
	g, x := in[0].floats, in[1]
	n := newNorm(id, a, x.shape)
	rstd, mean := in[len(in)-1].floats, make([]float64, n.stats)
	if !a.RMS {
		mean = in[len(in)-2].floats
	}
	h := func(i int) float64 {
		if a.Weight {
			return g[i] * in[2].floats[n.param[i]]
		}
		return g[i]
	}
	hat := func(i int) (float64, float64) {
		s, v := n.stat[i], x.floats[i]
		return (v - mean[s]) * rstd[s], (math.Abs(v) + math.Abs(mean[s])) * rstd[s]
	}
	e.units = max(e.units, 2*lengthUnits(int(n.count)))
	meanH, meanHX := make([]float64, n.stats), make([]float64, n.stats)
	sizeH, sizeHX := make([]float64, n.stats), make([]float64, n.stats)
	for i := range g {
		s, v := n.stat[i], h(i)
		xh, size := hat(i)
		if !a.RMS {
			meanH[s] += v / n.count
			sizeH[s] += math.Abs(v) / n.count
		}
		meanHX[s] += v * xh / n.count
		sizeHX[s] += math.Abs(v) * size / n.count
	}
	for i := range g {
		s := n.stat[i]
		xh, size := hat(i)
		e.floats[i] = rstd[s] * (h(i) - meanH[s] - xh*meanHX[s])
		e.scale[i] = rstd[s] * (math.Abs(h(i)) + sizeH[s] + size*sizeHX[s])
	}
	units := max(e.units, 2*lengthUnits(n.uses))
	spec := op.Spec{DType: x.dtype, Shape: a.ParamShape(normOf(id), x.shape)}
	if a.GradWeight {
		w := further(spec, units)
		for i, v := range g {
			xh, size := hat(i)
			w.floats[n.param[i]] += v * xh
			w.scale[n.param[i]] += math.Abs(v) * size
		}
		e.more = append(e.more, w)
	}
	if a.GradBias {
		b := further(spec, units)
		for i, v := range g {
			b.floats[n.param[i]] += v
			b.scale[n.param[i]] += math.Abs(v)
		}
		e.more = append(e.more, b)
	}
}

// normOf is the op that a gradient belongs to.
func normOf(grad op.ID) op.ID {
	if grad == op.BatchNormGrad {
		return op.BatchNorm
	}
	return op.Normalized
}

// completeNorm fills in the statistics of x.
func completeNorm(c sample.Sample, tensors []sample.Tensor) {
	a, x := c.Attrs.(op.Normalize), tensors[1]
	n := newNorm(c.Op, a, x.Shape)
	mean, square, _ := n.moments(x.Floats, a.RMS)
	put := func(t *sample.Tensor, f func(s int) float64) {
		for s := range t.Floats {
			t.Floats[s] = sample.PutFloat(t.DType, t.Bytes, s, f(s))
		}
	}
	last := len(tensors) - 1
	put(&tensors[last], func(s int) float64 { return 1 / math.Sqrt(square[s]+a.Eps) })
	if !a.RMS {
		put(&tensors[last-1], func(s int) float64 { return mean[s] })
	}
}
