package backendtest

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// lengthUnits is how many steps a sum of n terms may be off, at the size of the
// sum of their absolute values: rounding errors of a long sum in one order and
// in another differ like a random walk.
func lengthUnits(n int) float64 { return 8 + 2*math.Sqrt(float64(n)) }

func reduce(id op.ID, a op.Attrs, e *expected, x *array) {
	var axes op.AxisSet
	if ax, ok := a.(op.Axis); ok {
		axes = op.AxesOf(ax.Axis)
	} else {
		axes = a.(op.Reduce).Axes
	}
	if e.floats != nil {
		e.scale = make([]float64, e.len())
	}
	for o, g := range groups(x.shape, axes) {
		switch {
		case id == op.ArgMax || id == op.ArgMin:
			e.ints[o] = int64(argExtreme(x, g, id == op.ArgMin))
		case id == op.Max || id == op.Min:
			e.exact = true
			e.set(o, x, g[argExtreme(x, g, id == op.Min)])
		case x.floats == nil:
			r := truth(id == op.Prod)
			for _, i := range g {
				if id == op.Prod {
					r *= x.ints[i]
				} else {
					r += x.ints[i]
				}
			}
			e.ints[o] = r
		case id == op.Sum:
			e.units = max(e.units, lengthUnits(len(g)))
			for _, i := range g {
				e.floats[o] += x.floats[i]
				e.scale[o] += math.Abs(x.floats[i])
			}
		case id == op.Norm:
			e.units = max(e.units, lengthUnits(len(g)))
			for _, i := range g {
				e.floats[o] += x.floats[i] * x.floats[i]
			}
			e.floats[o] = math.Sqrt(e.floats[o])
			e.scale[o] = e.floats[o]
		case id == op.Prod:
			e.units = max(e.units, 4+2*float64(len(g)))
			e.floats[o] = 1
			for _, i := range g {
				e.floats[o] *= x.floats[i]
			}
		case id == op.LogSumExp:
			e.units = max(e.units, lengthUnits(len(g)))
			e.floats[o], e.scale[o] = logSumExp(x.floats, g)
		}
	}
}

// argExtreme returns the place in g of the first largest or smallest element of
// x; the first NaN wins.
func argExtreme(x *array, g []int, smallest bool) int {
	best := 0
	for k, i := range g {
		j := g[best]
		var better bool
		if x.floats == nil {
			better = x.ints[i] > x.ints[j] && !smallest || x.ints[i] < x.ints[j] && smallest
		} else {
			a, b := x.floats[i], x.floats[j]
			better = !math.IsNaN(b) && (math.IsNaN(a) || a > b && !smallest || a < b && smallest)
		}
		if better {
			best = k
		}
	}
	return best
}

// logSumExp returns log Σ eˣ over the elements g, and the size of its terms.
func logSumExp(x []float64, g []int) (value, scale float64) {
	m := math.Inf(-1)
	for _, i := range g {
		if math.IsNaN(x[i]) {
			return x[i], 0
		}
		m = math.Max(m, x[i])
	}
	if math.IsInf(m, 0) {
		return m, 0
	}
	sum := 0.0
	for _, i := range g {
		sum += math.Exp(x[i] - m)
	}
	return m + math.Log(sum), math.Abs(m) + 1
}

func matmul(e *expected, a, b *array) {
	r := len(a.shape)
	m, k, n := a.shape[r-2], a.shape[r-1], b.shape[r-1]
	e.units = lengthUnits(k)
	if e.floats != nil {
		e.scale = make([]float64, e.len())
	}
	for batch := range op.Elements(a.shape[:r-2]) {
		for i := range m {
			for j := range n {
				o := (batch*m+i)*n + j
				for l := range k {
					p, q := (batch*m+i)*k+l, (batch*k+l)*n+j
					if e.floats != nil {
						// Through a variable, so that no compiler fuses it with the addition.
						t := float64(a.floats[p] * b.floats[q])
						e.floats[o] += t
						e.scale[o] += math.Abs(t)
					} else {
						e.ints[o] += a.ints[p] * b.ints[q]
					}
				}
			}
		}
	}
}

// create needs package random: random.go. Full and Arange are here.
func createPlain(a op.Create, id op.ID, e *expected) {
	e.exact = true
	for i := range e.len() {
		switch {
		case id == op.Full && e.floats != nil:
			e.floats[i] = a.Value
		case id == op.Full:
			e.ints[i] = a.IValue
		case e.floats != nil:
			e.exact, e.units = false, 1
			e.floats[i] = a.Value + float64(float64(i)*a.Step)
		default:
			e.ints[i] = a.IValue + int64(i)*a.IStep
		}
	}
	if e.dtype == dtype.Float64 {
		e.scale = make([]float64, e.len())
		for i := range e.scale {
			e.scale[i] = math.Abs(a.Value) + math.Abs(float64(i)*a.Step)
		}
	}
}
