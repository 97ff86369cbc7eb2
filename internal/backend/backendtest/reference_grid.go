package backendtest

import (
	"math"

	"github.com/locusml/locus/internal/op"
)

// gridPlace returns where along an axis of size n the coordinate g lies, and the
// derivative.
func gridPlace(a op.Grid, g float64, n int) (at, slope float64) {
	size := float64(n)
	position := func(g float64) float64 {
		if a.Corners {
			return (g + 1) / 2 * (size - 1)
		}
		return ((g+1)*size - 1) / 2
	}
	at, slope = position(g), position(1)-position(0)
	if a.Padding == op.GridReflect {
		low, high := -0.5, size-0.5
		if a.Corners {
			low, high = 0, size-1
		}
		if low == high {
			return 0, 0
		}
		for at < low || at > high { // mirrored until it is inside
			if at < low {
				at = 2*low - at
			} else {
				at = 2*high - at
			}
			slope = -slope
		}
	}
	if a.Padding != op.GridZeros {
		if at <= 0 || at >= size-1 {
			slope = 0
		}
		at = math.Min(math.Max(at, 0), size-1)
	}
	return at, slope
}

// gridCorners calls f for the elements beside a place: where each is in its channel, its
// weight, and the derivatives of the weight by the place's coordinates.
func gridCorners(a op.Grid, place []float64, size []int, f func(at int, weight float64, slopes []float64)) {
	d := len(size)
	before, part, by := make([]int, d), make([]float64, d), make([]float64, d)
	for i, n := range size {
		at, slope := gridPlace(a, place[d-1-i], n)
		if a.Nearest {
			before[i] = int(math.RoundToEven(at))
			continue
		}
		before[i], part[i], by[i] = int(math.Floor(at)), at-math.Floor(at), slope
	}
	for k := range 1 << d {
		index, inside := 0, true
		weights, signs := make([]float64, d), make([]float64, d)
		for i, n := range size {
			at := before[i]
			weights[i], signs[i] = 1-part[i], -by[i]
			if k>>i&1 == 1 {
				at, weights[i], signs[i] = at+1, part[i], by[i]
			}
			inside = inside && at >= 0 && at < n
			index = index*n + at
		}
		if !inside || a.Nearest && k > 0 {
			continue
		}
		slopes := make([]float64, d)
		for i := range d {
			slopes[d-1-i] = signs[i]
			for j := range d {
				if j != i {
					slopes[d-1-i] *= weights[j]
				}
			}
		}
		f(index, prod(weights), slopes)
	}
}

func prod(l []float64) float64 {
	p := 1.0
	for _, v := range l {
		p *= v
	}
	return p
}

func gridSample(id op.ID, a op.Grid, e *expected, in []*array) {
	grid := in[len(in)-1]
	x := e.shape
	if id != op.GridSampleGradInput {
		x = in[len(in)-2].shape
	}
	size, d, channels := x[2:], len(x)-2, x[1]
	places := op.Elements(grid.shape[1 : 1+d])
	length := op.Elements(size)
	longest := 0
	for _, n := range size {
		longest = max(longest, n)
	}
	// A place's rounding counts as many times as the axis is long.
	e.units = 16 * float64(longest)
	if id == op.GridSampleGradInput {
		e.units += lengthUnits(places)
	} else {
		e.units += lengthUnits(channels)
	}
	for n := range x[0] {
		for p := range places {
			at := n*places + p
			gridCorners(a, grid.floats[at*d:(at+1)*d], size, func(i int, weight float64, slopes []float64) {
				for c := range channels {
					plane := n*channels + c
					switch id {
					case op.GridSample:
						v := in[0].floats[plane*length+i]
						e.floats[plane*places+p] += weight * v
						e.scale[plane*places+p] += math.Abs(v)
					case op.GridSampleGradInput:
						v := in[0].floats[plane*places+p]
						e.floats[plane*length+i] += weight * v
						e.scale[plane*length+i] += math.Abs(v)
					case op.GridSampleGradGrid:
						v := in[0].floats[plane*places+p] * in[1].floats[plane*length+i]
						for j, s := range slopes {
							e.floats[at*d+j] += v * s
							e.scale[at*d+j] += math.Abs(v) * float64(longest)
						}
					}
				}
			})
		}
	}
}
