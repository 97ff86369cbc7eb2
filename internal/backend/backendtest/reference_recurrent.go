package backendtest

import (
	"math"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// num is a number and how far a kernel may be off, in units of its last place: errors
// of one step go into all that follow.
type num struct{ v, e float64 }

func exact(v float64) num { return num{v, 0} }

func (a num) add(b num) num { r := a.v + b.v; return num{r, a.e + b.e + math.Abs(r)} }
func (a num) sub(b num) num { return a.add(num{-b.v, b.e}) }
func (a num) mul(b num) num {
	r := a.v * b.v
	return num{r, math.Abs(a.v)*b.e + math.Abs(b.v)*a.e + math.Abs(r)}
}
func (a num) tanh() num    { y := math.Tanh(a.v); return num{y, (1-y*y)*a.e + math.Abs(y)} }
func (a num) sigmoid() num { y := sigmoid(a.v); return num{y, y*(1-y)*a.e + y} }
func (a num) relu() num {
	if a.v > 0 {
		return a
	}
	return num{0, a.e}
}

// oneLess is 1 - a.
func (a num) oneLess() num { return num{1 - a.v, a.e + 1} }

// dot is a sum of n products, however it is added up.
func dot(n int, a, b func(i int) num) num {
	var r num
	for i := range n {
		x, y := a(i), b(i)
		p := x.v * y.v
		r.v += p
		r.e += math.Abs(x.v)*y.e + math.Abs(y.v)*x.e + 2*math.Abs(p)
	}
	return r
}

// recurrence is a call of Recurrent or RecurrentGrad.
type recurrence struct {
	op.Recurrence
	l, n, in, h, gates       int
	x, h0, c0, w, u, bW, bU  []float64
	out, state, cell, hidden []num // [steps][n][h]; out ends with an LSTM's last cell
	gate                     []num // [steps][n][gates·h]
}

func newRecurrence(a op.Recurrence, in []*array) *recurrence {
	x, h := in[0].shape, in[1].shape
	r := &recurrence{Recurrence: a, l: x[0], n: x[1], in: x[2], h: h[1], gates: a.Cell.Gates()}
	cell, w, u, bW, bU, _ := a.At()
	r.x, r.h0, r.w, r.u = in[0].floats, in[1].floats, in[w].floats, in[u].floats
	if cell >= 0 {
		r.c0 = in[cell].floats
	}
	if a.Bias {
		r.bW, r.bU = in[bW].floats, in[bU].floats
	}
	size := r.l * r.n * r.h
	r.state, r.cell, r.hidden, r.gate = make([]num, size), make([]num, size), make([]num, size), make([]num, size*r.gates)
	return r
}

// order lists the steps as they are taken.
func (r *recurrence) order() []int {
	l := make([]int, r.l)
	for i := range l {
		l[i] = i
		if r.Reverse {
			l[i] = r.l - 1 - i
		}
	}
	return l
}

// before is what a list of states had before step t, for element j of row b.
func (r *recurrence) before(states []num, first []float64, t, b, j int) num {
	if r.Reverse {
		t += 2
	}
	if t--; t < 0 || t == r.l {
		return exact(first[b*r.h+j])
	}
	return states[(t*r.n+b)*r.h+j]
}

func bias(b []float64, i int) num {
	if b == nil {
		return num{}
	}
	return exact(b[i])
}

func (r *recurrence) forward() {
	for _, t := range r.order() {
		for b := range r.n {
			row := t*r.n + b
			for j := range r.h {
				// What input and state contribute to gate k.
				fromInput := func(k int) num {
					o := k*r.h + j
					s := dot(r.in, func(i int) num { return exact(r.x[row*r.in+i]) }, func(i int) num { return exact(r.w[o*r.in+i]) })
					return s.add(bias(r.bW, o))
				}
				fromState := func(k int) num {
					o := k*r.h + j
					s := dot(r.h, func(i int) num { return r.before(r.state, r.h0, t, b, i) }, func(i int) num { return exact(r.u[o*r.h+i]) })
					return s.add(bias(r.bU, o))
				}
				sum := func(k int) num { return fromInput(k).add(fromState(k)) }
				at := row*r.h + j
				gate := func(k int, v num) num { r.gate[row*r.gates*r.h+k*r.h+j] = v; return v }
				switch r.Cell {
				case op.TanhCell:
					r.state[at] = sum(0).tanh()
				case op.ReluCell:
					r.state[at] = sum(0).relu()
				case op.LSTMCell:
					i, f, k, o := gate(0, sum(0).sigmoid()), gate(1, sum(1).sigmoid()), gate(2, sum(2).tanh()), gate(3, sum(3).sigmoid())
					r.cell[at] = f.mul(r.before(r.cell, r.c0, t, b, j)).add(i.mul(k))
					r.state[at] = o.mul(r.cell[at].tanh())
				case op.GRUCell:
					reset, update := gate(0, sum(0).sigmoid()), gate(1, sum(1).sigmoid())
					r.hidden[at] = fromState(2)
					fresh := gate(2, fromInput(2).add(reset.mul(r.hidden[at])).tanh())
					r.state[at] = fresh.add(update.mul(r.before(r.state, r.h0, t, b, j).sub(fresh)))
				}
			}
		}
	}
	r.out = r.state
	if r.Cell == op.LSTMCell {
		steps := r.order()
		last := steps[r.l-1] * r.n * r.h
		r.out = append(append([]num{}, r.state...), r.cell[last:last+r.n*r.h]...)
	}
}

// saved is what the gradient needs.
func (r *recurrence) saved() [][]num {
	switch r.Cell {
	case op.LSTMCell:
		return [][]num{r.gate, r.cell}
	case op.GRUCell:
		return [][]num{r.gate, r.hidden}
	}
	return nil
}

// fill puts numbers into a result. Every rounding to a half-precision type is one of many.
func (e *expected) fill(from []num) {
	e.halves = max(e.halves, 4)
	e.scale = make([]float64, e.len())
	for i, x := range from {
		e.floats[i], e.scale[i] = x.v, x.e
	}
}

func recurrent(a op.Recurrence, e *expected, in []*array) {
	r := newRecurrence(a, in)
	r.forward()
	e.fill(r.out)
	for i, s := range a.Saved(op.Spec{DType: e.dtype, Shape: in[0].shape}, r.h) {
		more := further(s, e.units)
		more.fill(r.saved()[i])
		e.more = append(e.more, more)
	}
}

// completeRecurrence fills in the result and what was saved.
func completeRecurrence(c sample.Sample, tensors []sample.Tensor) {
	a := c.Attrs.(op.Recurrence)
	_, _, _, _, _, n := a.At()
	r := newRecurrence(a, arrays(tensors[1:1+n]))
	r.forward()
	for i, from := range append([][]num{r.out}, r.saved()...) {
		t := &tensors[1+n+i]
		for k, x := range from {
			t.Floats[k] = sample.PutFloat(t.DType, t.Bytes, k, x.v)
		}
	}
}

func recurrentGrad(a op.Recurrence, e *expected, in []*array) {
	_, _, _, _, _, n := a.At()
	own := in[1 : 1+n]
	r := newRecurrence(a, own)
	given := func(dst []num, from *array) {
		for i := range dst {
			dst[i] = exact(from.floats[i])
		}
	}
	given(r.state, in[1+n])
	switch r.Cell {
	case op.LSTMCell:
		given(r.gate, in[2+n])
		given(r.cell, in[3+n])
	case op.GRUCell:
		given(r.gate, in[2+n])
		given(r.hidden, in[3+n])
	}
	g, rows := in[0].floats, r.gates*r.h
	size := r.n * r.h
	toInput, toState := make([]num, r.l*r.n*rows), make([]num, r.l*r.n*rows) // the gradients of what input and state contribute
	dh, dc := make([]num, size), make([]num, size)
	if r.Cell == op.LSTMCell {
		for i := range dc {
			dc[i] = exact(g[r.l*size+i])
		}
	}
	steps := r.order()
	for s := r.l - 1; s >= 0; s-- {
		t := steps[s]
		keep := make([]num, size) // of the state's gradient, past the gates
		for b := range r.n {
			for j := range r.h {
				at, row, k := b*r.h+j, t*r.n+b, t*size+b*r.h+j
				d := exact(g[k]).add(dh[at])
				gate := func(i int) num { return r.gate[row*rows+i*r.h+j] }
				slope := func(y num) num { return y.mul(y.oneLess()) }
				flat := func(y num) num { return y.mul(y).oneLess() }
				set := func(i int, v num) { toInput[row*rows+i*r.h+j], toState[row*rows+i*r.h+j] = v, v }
				switch y := r.state[k]; r.Cell {
				case op.TanhCell:
					set(0, d.mul(flat(y)))
				case op.ReluCell:
					if y.v > 0 {
						set(0, d)
					}
				case op.LSTMCell:
					i, f, c, o := gate(0), gate(1), gate(2), gate(3)
					tanh := r.cell[k].tanh()
					cell := dc[at].add(d.mul(o).mul(flat(tanh)))
					set(0, cell.mul(c).mul(slope(i)))
					set(1, cell.mul(r.before(r.cell, r.c0, t, b, j)).mul(slope(f)))
					set(2, cell.mul(i).mul(flat(c)))
					set(3, d.mul(tanh).mul(slope(o)))
					dc[at] = cell.mul(f)
				case op.GRUCell:
					reset, update, fresh := gate(0), gate(1), gate(2)
					toNew := d.mul(update.oneLess()).mul(flat(fresh))
					set(0, toNew.mul(r.hidden[k]).mul(slope(reset)))
					set(1, d.mul(r.before(r.state, r.h0, t, b, j).sub(fresh)).mul(slope(update)))
					set(2, toNew)
					toState[row*rows+2*r.h+j] = toNew.mul(reset)
					keep[at] = d.mul(update)
				}
			}
		}
		for b := range r.n {
			for j := range r.h {
				row := t*r.n + b
				p := dot(rows, func(o int) num { return toState[row*rows+o] }, func(o int) num { return exact(r.u[o*r.h+j]) })
				dh[b*r.h+j] = p.add(keep[b*r.h+j])
			}
		}
	}
	all := r.l * r.n
	product := func(width int, z []num, x func(row, j int) num) []num { // Σ over steps and batch of zᵀ·x
		out := make([]num, rows*width)
		for o := range rows {
			for j := range width {
				out[o*width+j] = dot(all, func(row int) num { return z[row*rows+o] }, func(row int) num { return x(row, j) })
			}
		}
		return out
	}
	e.fill(product(r.h, toState, func(row, j int) num { return r.before(r.state, r.h0, row/r.n, row%r.n, j) }))
	results := [][]num{product(r.in, toInput, func(row, j int) num { return exact(r.x[row*r.in+j]) })}
	if a.Bias {
		one := func(int, int) num { return exact(1) }
		results = append(results, product(1, toInput, one), product(1, toState, one))
	}
	if a.GradX {
		dx := make([]num, all*r.in)
		for row := range all {
			for j := range r.in {
				dx[row*r.in+j] = dot(rows, func(o int) num { return toInput[row*rows+o] }, func(o int) num { return exact(r.w[o*r.in+j]) })
			}
		}
		results = append(results, dx)
	}
	if a.GradState {
		results = append(results, dh)
		if r.Cell == op.LSTMCell {
			results = append(results, dc)
		}
	}
	specs := make([]op.Spec, len(in))
	for i, x := range in {
		specs[i] = op.Spec{DType: x.dtype, Shape: x.shape}
	}
	for i, s := range op.Get(op.RecurrentGrad).More(a, specs) {
		more := further(s, e.units)
		more.fill(results[i])
		e.more = append(e.more, more)
	}
}
