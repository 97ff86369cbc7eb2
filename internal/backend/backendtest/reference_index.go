package backendtest

import (
	"math"
	"sort"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

func index(id op.ID, a op.Attrs, e *expected, in []*array) {
	x := in[0]
	switch id {
	case op.Gather:
		e.exact, e.signs = true, true
		axis := a.(op.Axis).Axis
		for i, k := range in[1].ints {
			c := coords(in[1].shape, i)
			c[axis] = int(k)
			e.set(i, x, position(x.shape, c))
		}
	case op.ScatterAdd:
		axis := a.(op.Axis).Axis
		scatter(e, x, in[2], func(i int) int {
			c := coords(in[1].shape, i)
			c[axis] = int(in[1].ints[i])
			return position(x.shape, c)
		})
	case op.Scatter:
		e.exact, e.signs = true, true
		axis := a.(op.Axis).Axis
		for i := range x.len() {
			e.set(i, x, i)
		}
		for i, k := range in[1].ints {
			c := coords(in[1].shape, i)
			c[axis] = int(k)
			e.set(position(x.shape, c), in[2], i)
		}
	case op.Take:
		e.exact, e.signs = true, true
		for i := range e.len() {
			e.set(i, x, taken(x, in[1], a.(op.Axis).Axis, e.shape, i))
		}
	case op.IndexAdd:
		scatter(e, x, in[2], func(i int) int { return taken(x, in[1], a.(op.Axis).Axis, in[2].shape, i) })
	case op.Concat:
		e.exact, e.signs = true, true
		axis, begin := a.(op.Axis).Axis, 0
		for _, x := range in {
			for i := range x.len() {
				c := coords(x.shape, i)
				c[axis] += begin
				e.set(position(e.shape, c), x, i)
			}
			begin += x.shape[axis]
		}
	case op.Padded:
		e.exact, e.signs = true, true
		p := a.(op.Pad)
		for i := range e.len() {
			switch {
			case e.floats != nil:
				e.floats[i] = p.Value
			case e.dtype == dtype.Bool:
				e.ints[i] = truth(p.Value != 0)
			default:
				e.ints[i] = int64(p.Value)
			}
		}
		for i := range x.len() {
			c := coords(x.shape, i)
			for ax := range c {
				c[ax] = p.Low.D[ax] + c[ax]*(1+p.Interior.D[ax])
			}
			e.set(position(e.shape, c), x, i)
		}
	case op.CumSum:
		cumSum(a.(op.Axis), e, x)
	case op.CumMax, op.CumMin:
		cumExtreme(a.(op.Axis), e, x, id == op.CumMax)
	case op.ArgSort:
		argSort(a.(op.Axis), e, x)
	}
}

// taken returns the element of x that element i of take's result (of the given
// shape) comes from.
func taken(x, idx *array, axis int, shape []int, i int) int {
	c := coords(shape, i)
	r := len(idx.shape)
	k := idx.ints[position(idx.shape, c[axis:axis+r])]
	from := append(append(append([]int{}, c[:axis]...), int(k)), c[axis+r:]...)
	return position(x.shape, from)
}

// scatter adds src's elements, in order, to a copy of x at the places that at
// names. Half-precision types may round after each addition or only at the end.
func scatter(e *expected, x, src *array, at func(i int) int) {
	for i := range x.len() {
		e.set(i, x, i)
	}
	if e.floats == nil {
		for i, v := range src.ints {
			e.ints[at(i)] += v
		}
		return
	}
	e.scale = make([]float64, x.len())
	terms := make([]float64, x.len())
	for i, v := range x.floats {
		e.scale[i] = math.Abs(v)
	}
	for i, v := range src.floats {
		o := at(i)
		e.floats[o] += v
		e.scale[o] += math.Abs(v)
		terms[o]++
		e.units = max(e.units, 4+terms[o])
		e.halves = max(e.halves, 1+terms[o]/2)
	}
}

func cumSum(a op.Axis, e *expected, x *array) {
	if e.floats != nil {
		e.scale = make([]float64, e.len())
	}
	for _, l := range alongAxis(x.shape, a.Axis) {
		var f, size float64
		var n int64
		e.units = max(e.units, lengthUnits(l.n))
		for k := range l.n {
			i := l.at(k)
			if a.Reverse {
				i = l.at(l.n - 1 - k)
			}
			if e.floats != nil {
				f += x.floats[i]
				size += math.Abs(x.floats[i])
				e.floats[i], e.scale[i] = f, size
			} else {
				n += x.ints[i]
				e.ints[i] = n
			}
		}
	}
}

func argSort(a op.Axis, e *expected, x *array) {
	for _, l := range alongAxis(x.shape, a.Axis) {
		order := make([]int, l.n)
		for i := range order {
			order[i] = i
		}
		ascending := func(p, q int) bool {
			if x.floats == nil {
				return x.ints[p] < x.ints[q]
			}
			u, v := x.floats[p], x.floats[q]
			return u < v || math.IsNaN(v) && !math.IsNaN(u)
		}
		sort.SliceStable(order, func(i, j int) bool {
			p, q := l.at(order[i]), l.at(order[j])
			if a.Reverse {
				p, q = q, p
			}
			return ascending(p, q)
		})
		for i, k := range order {
			e.ints[l.at(i)] = int64(k)
		}
	}
}

// cumExtreme keeps the last of equal elements; the last NaN counts as extreme.
func cumExtreme(a op.Axis, e *expected, x *array, largest bool) {
	value := func(i int) float64 {
		if x.floats != nil {
			return x.floats[i]
		}
		return 0
	}
	for _, l := range alongAxis(x.shape, a.Axis) {
		best := 0
		for k := range l.n {
			p, q := l.at(best), l.at(k)
			var better bool
			switch u, v := value(p), value(q); {
			case x.floats == nil && largest:
				better = x.ints[q] >= x.ints[p]
			case x.floats == nil:
				better = x.ints[q] <= x.ints[p]
			case math.IsNaN(v):
				better = true
			case largest:
				better = v >= u
			default:
				better = v <= u
			}
			if better {
				best = k
			}
			e.ints[l.at(k)] = int64(best)
		}
	}
}
