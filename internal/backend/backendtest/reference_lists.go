package backendtest

import (
	"math"

	"github.com/locusml/locus/internal/op"
)

// next is the result behind those that e has, of the shape of an operand.
func (e *expected) next(like *array) *expected {
	m := &expected{array: newArray(op.Spec{DType: e.dtype, Shape: like.shape}), units: e.units, halves: e.halves}
	m.scale = make([]float64, m.len())
	e.more = append(e.more, m)
	return m
}

func globalNorm(e *expected, in []*array) {
	sum, n := 0.0, 0
	for _, x := range in {
		for _, v := range x.floats {
			sum += v * v
		}
		n += x.len()
	}
	e.units = lengthUnits(n)
	e.floats[0] = math.Sqrt(sum)
}

func scaleAll(e *expected, in []*array) {
	e.exact = true
	factor := in[len(in)-1].floats[0]
	for i, x := range in[:len(in)-1] {
		to := e
		if i > 0 {
			to = e.next(x)
			to.exact = true
		}
		for k, v := range x.floats {
			to.floats[k] = round(e.dtype, v*factor)
		}
	}
}

func castAll(e *expected, in []*array) {
	for i, x := range in {
		to := e
		if i > 0 {
			to = e.next(x)
		}
		cast(to, x)
	}
}

// sized is a number, and the size of what it was added up from.
type sized struct{ x, size float64 }

func (a sized) add(b sized) sized     { return sized{a.x + b.x, a.size + b.size} }
func (a sized) times(f float64) sized { return sized{a.x * f, a.size * math.Abs(f)} }
func (a sized) square() sized         { return sized{a.x * a.x, a.size * a.size} }
func (a sized) root() sized           { return sized{math.Sqrt(a.x), a.size / math.Sqrt(a.x)} }
func (a sized) over(b sized) sized {
	return sized{a.x / b.x, a.size / math.Abs(b.x) * (b.size / math.Abs(b.x))}
}
func exactly(x float64) sized                    { return sized{x, math.Abs(x)} }
func average(beta float64, old, new sized) sized { return old.times(beta).add(new.times(1 - beta)) }

func updateAll(u op.Update, e *expected, in []*array) {
	e.units, e.halves = 16, 4 // each number may be rounded on the way to the next
	factor, ok := 1.0, true
	extra := in[len(in)-u.Extra():]
	if u.Scaled {
		factor = extra[0].floats[0]
	}
	if u.Gated {
		ok = extra[len(extra)-1].ints[0] != 0
	}
	for at := 0; at+u.Extra() < len(in); at += u.Each() {
		p, g := in[at], in[at+1]
		results := make([]*expected, 1+u.Slots())
		for k := range results {
			if results[k] = e; at > 0 || k > 0 {
				results[k] = e.next(p)
			}
		}
		for i := range p.floats {
			old := make([]sized, u.Slots())
			if !u.First {
				for k := range old {
					old[k] = exactly(in[at+2+k].floats[i])
				}
			}
			value, slots := exactly(p.floats[i]), old
			if ok {
				value, slots = updateOne(u, value, exactly(g.floats[i]).times(factor), old)
			}
			for k, r := range append([]sized{value}, slots...) {
				results[k].floats[i], results[k].scale[i] = r.x, r.size
			}
		}
	}
}

// updateOne is the step of one element, by the comment of op.Update.
func updateOne(u op.Update, p, g sized, old []sized) (sized, []sized) {
	slots := make([]sized, len(old))
	g = g.add(p.times(u.Decay))
	step := func(d sized) sized { return p.times(u.Keep).add(d.times(-u.Rate)) }
	switch u.Rule {
	case op.SGDRule:
		if u.Momentum == 0 {
			return step(g), slots
		}
		slots[0] = old[0].times(u.Momentum).add(g.times(u.Fresh))
		if u.First {
			slots[0] = g
		}
		if u.Nesterov {
			return step(g.add(slots[0].times(u.Momentum))), slots
		}
		return step(slots[0]), slots
	case op.AdamRule:
		slots[0], slots[1] = average(u.Momentum, old[0], g), average(u.Beta, old[1], g.square())
		return step(slots[0].over(slots[1].root().times(u.Root).add(exactly(u.Eps)))), slots
	case op.AdagradRule:
		if slots[0] = old[0].add(g.square()); u.First {
			slots[0] = g.square().add(exactly(u.Start))
		}
		return step(g.over(slots[0].root().times(u.Root).add(exactly(u.Eps)))), slots
	}
	slots[0] = average(u.Beta, old[0], g.square())
	v := slots[0]
	if u.Centered {
		slots[1] = average(u.Beta, old[1], g)
		v = v.add(slots[1].square().times(-1))
	}
	d := g.over(v.root().add(exactly(u.Eps)))
	if u.Momentum != 0 {
		k := len(slots) - 1
		slots[k] = old[k].times(u.Momentum).add(d)
		d = slots[k]
	}
	return step(d), slots
}
