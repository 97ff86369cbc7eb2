package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// An optimizer's step for all parameters. Each piece goes through the same functions
// in the same order as it would with an op for each of them (blend, blend_square,
// adam_step and elementwise ones), so the bits are the same; but it stays in the
// nearest cache meanwhile, and all parameters share one parallel loop.
func init() {
	register(op.UpdateAll, dtype.Float32, updateAll(&arithmetic[float32]{blend32, blendSquare32, adam32, vec.MulF32, vec.SubF32, vec.DivF32, vec.MulSF32, vec.AddSF32, vec.SqrtF32}))
	register(op.UpdateAll, dtype.Float64, updateAll(&arithmetic[float64]{blend64, blendSquare64, adam64, vec.MulF64, vec.SubF64, vec.DivF64, vec.MulSF64, vec.AddSF64, vec.SqrtF64}))
}

// arithmetic is what updates are made of.
type arithmetic[T float] struct {
	blend, blendSquare func(dst, a, b []T, s op.Scales)
	adam               func(dst, p, m, v []T, a op.Adam)
	mul, sub, div      func(dst, a, b []T)
	mulS, addS         func(dst, a []T, s T)
	sqrt               func(dst, a []T)
}

// maxSlots is the largest number of tensors that a rule remembers.
const maxSlots = 3

// updating is one parameter, or a piece of it.
type updating[T float] struct {
	p, g, new []T
	old, out  [maxSlots][]T // what is remembered; old is empty at first
}

func (x *updating[T]) piece(lo, hi, slots int, first bool) (r updating[T]) {
	r.p, r.g, r.new = x.p[lo:hi], x.g[lo:hi], x.new[lo:hi]
	for k := range slots {
		r.out[k] = x.out[k][lo:hi]
		if !first {
			r.old[k] = x.old[k][lo:hi]
		}
	}
	return r
}

func updateAll[T float](m *arithmetic[T]) kernel {
	return func(c *backend.Call) error {
		u := c.Attrs.(op.Update)
		slots, step := u.Slots(), u.Each()
		extra := c.In[len(c.In)-u.Extra():]
		params := (len(c.In) - len(extra)) / step
		list := make([]updating[T], params)
		var all joined
		for i := range list {
			x, in := &list[i], c.In[i*step:]
			n := in[0].Elements()
			all.add(n)
			x.p, x.g, x.new = packed[T](&in[0]), packed[T](&in[1]), elements[T](result(c, i*(1+slots)), n)
			for k := range slots {
				x.out[k] = elements[T](result(c, i*(1+slots)+1+k), n)
				if !u.First {
					x.old[k] = packed[T](&in[2+k])
				}
			}
		}
		if u.Gated {
			if ok := &extra[len(extra)-1]; elements[uint8](ok, 1)[0] == 0 {
				all.run(grainCheap, grainCheap, func(i, lo, hi int) {
					x := list[i].piece(lo, hi, slots, u.First)
					x.leave(slots, u.First)
				})
				return nil
			}
		}
		factor := T(1)
		if u.Scaled {
			factor = elements[T](&extra[0], 1)[0]
		}
		all.run(grainUpdate, piece, func(i, lo, hi int) {
			x := list[i].piece(lo, hi, slots, u.First)
			s, room := scratchOf[T](2 * piece)
			m.update(&u, &x, factor, room[:hi-lo], room[piece:][:hi-lo])
			s.free()
		})
		return nil
	}
}

// grainUpdate is the number of elements of an update that are worth handing to
// another thread: they are more expensive than the elements of one cheap op.
const grainUpdate = 8 << 10

// leave is the step that changes nothing. Copying in place does nothing.
func (x *updating[T]) leave(slots int, first bool) {
	copy(x.new, x.p)
	for k := range slots {
		if first {
			clear(x.out[k])
		} else {
			copy(x.out[k], x.old[k])
		}
	}
}

// update is the step of a piece. Results may lie where the operands lie that they
// replace, so the parameter is written last. room and d are for what is on the way.
func (m *arithmetic[T]) update(u *op.Update, x *updating[T], factor T, room, d []T) {
	g := x.g
	if u.Scaled {
		m.mulS(room, g, factor)
		g = room
	}
	if u.Decay != 0 {
		m.blend(room, g, x.p, op.Scales{A: 1, B: u.Decay})
		g = room
	}
	switch u.Rule {
	case op.SGDRule:
		switch {
		case u.Momentum == 0:
			d = g
		case u.First:
			copy(x.out[0], g)
		default:
			m.blend(x.out[0], x.old[0], g, op.Scales{A: u.Momentum, B: u.Fresh})
		}
		if u.Nesterov {
			m.blend(d, g, x.out[0], op.Scales{A: 1, B: u.Momentum})
		} else if u.Momentum != 0 {
			d = x.out[0]
		}
	case op.AdamRule:
		m.average(u.First, x.out[0], x.old[0], g, u.Momentum)
		m.averageSquare(u.First, x.out[1], x.old[1], g, u.Beta)
		m.adam(x.new, x.p, x.out[0], x.out[1], op.Adam{Keep: u.Keep, Rate: u.Rate, Root: u.Root, Eps: u.Eps})
		return
	case op.RMSPropRule:
		m.averageSquare(u.First, x.out[0], x.old[0], g, u.Beta)
		v, k := x.out[0], 1
		if u.Centered {
			m.average(u.First, x.out[1], x.old[1], g, u.Beta)
			m.mul(d, x.out[1], x.out[1])
			m.sub(d, v, d)
			v, k = d, 2
		}
		m.sqrt(d, v)
		m.addS(d, d, T(u.Eps))
		m.div(d, g, d)
		if u.Momentum != 0 {
			if u.First {
				copy(x.out[k], d)
			} else {
				m.blend(x.out[k], x.old[k], d, op.Scales{A: u.Momentum, B: 1})
			}
			d = x.out[k]
		}
	case op.AdagradRule:
		if u.First {
			m.mul(x.out[0], g, g)
			m.addS(x.out[0], x.out[0], T(u.Start))
		} else {
			m.blendSquare(x.out[0], x.old[0], g, op.Scales{A: 1, B: 1})
		}
		m.adam(x.new, x.p, g, x.out[0], op.Adam{Keep: u.Keep, Rate: u.Rate, Root: u.Root, Eps: u.Eps})
		return
	}
	m.blend(x.new, x.p, d, op.Scales{A: u.Keep, B: -u.Rate})
}

// average makes β·old + (1-β)·new; at first there is no old one.
func (m *arithmetic[T]) average(first bool, dst, old, new []T, beta float64) {
	if first {
		m.mulS(dst, new, T(1-beta))
	} else {
		m.blend(dst, old, new, op.Scales{A: beta, B: 1 - beta})
	}
}

// averageSquare makes β·old + (1-β)·new².
func (m *arithmetic[T]) averageSquare(first bool, dst, old, new []T, beta float64) {
	if first {
		m.mul(dst, new, new)
		m.mulS(dst, dst, T(1-beta))
	} else {
		m.blendSquare(dst, old, new, op.Scales{A: beta, B: 1 - beta})
	}
}
