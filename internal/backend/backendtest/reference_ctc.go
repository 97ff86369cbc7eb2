package backendtest

import (
	"math"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

func logAdd(a, b float64) float64 {
	if math.IsInf(a, -1) {
		return b
	}
	if math.IsInf(b, -1) {
		return a
	}
	m := math.Max(a, b)
	return m + math.Log1p(math.Exp(-math.Abs(a-b)))
}

// ctcTable is one sequence: the logarithms of the probabilities of beginnings and of ends of
// paths, by step and state.
type ctcTable struct {
	states         []int
	x, alpha, beta [][]float64
	loss           float64
}

func ctcTableOf(a op.Alignment, in []*array, n int) ctcTable {
	x, width := in[0], in[1].shape[1]
	time, classes := x.shape[1], x.shape[2]
	steps, labels := int(in[2].ints[n]), int(in[3].ints[n])
	t := ctcTable{states: []int{a.Blank}}
	for _, k := range in[1].ints[n*width : n*width+labels] {
		t.states = append(t.states, int(k), a.Blank)
	}
	l := len(t.states)
	table := func() [][]float64 {
		rows := make([][]float64, steps)
		for i := range rows {
			rows[i] = make([]float64, l)
			for s := range rows[i] {
				rows[i][s] = math.Inf(-1)
			}
		}
		return rows
	}
	t.x, t.alpha, t.beta = table(), table(), table()
	follows := func(from, to int) bool {
		return to == from || to == from+1 || to == from+2 && t.states[to] != a.Blank && t.states[to] != t.states[from]
	}
	for i := range steps {
		for s, k := range t.states {
			t.x[i][s] = x.floats[(n*time+i)*classes+k]
			p := math.Inf(-1)
			if i == 0 && s < 2 {
				p = 0
			}
			for from := max(0, s-2); i > 0 && from <= s; from++ {
				if follows(from, s) {
					p = logAdd(p, t.alpha[i-1][from])
				}
			}
			t.alpha[i][s] = p + t.x[i][s]
		}
	}
	for i := steps - 1; i >= 0; i-- {
		for s := range t.states {
			p := math.Inf(-1)
			if i == steps-1 && s >= l-2 {
				p = 0
			}
			for to := s; i < steps-1 && to <= min(s+2, l-1); to++ {
				if follows(s, to) {
					p = logAdd(p, t.beta[i+1][to]+t.x[i+1][to])
				}
			}
			t.beta[i][s] = p
		}
	}
	switch {
	case steps > 0:
		t.loss = math.Inf(-1)
		for s := max(0, l-2); s < l; s++ {
			t.loss = logAdd(t.loss, t.alpha[steps-1][s])
		}
		t.loss = -t.loss
	case l > 1:
		t.loss = math.Inf(1)
	}
	return t
}

func ctc(id op.ID, a op.Alignment, e *expected, in []*array) {
	x := in[0].shape
	time, classes, width := x[1], x[2], 2*in[1].shape[1]+1
	e.units = 16 + 4*float64(time)
	e.halves = 1
	if id == op.CTC {
		e.halves = 0
		saved := further(op.Get(op.CTC).More(nil, []op.Spec{{DType: in[0].dtype, Shape: x}, {DType: in[1].dtype, Shape: in[1].shape}})[0], e.units)
		e.more = append(e.more, saved)
		for i := range saved.floats {
			saved.floats[i] = math.Inf(-1)
		}
	}
	for n := range x[0] {
		t := ctcTableOf(a, in, n)
		if id == op.CTC {
			e.floats[n], e.scale[n] = t.loss, 3*float64(time)+8
			for i, row := range t.alpha {
				for s, v := range row {
					at := (n*time+i)*width + s
					e.more[0].floats[at], e.more[0].scale[at] = v, 3*float64(time)+8
				}
			}
			continue
		}
		if math.IsInf(t.loss, 1) {
			continue
		}
		g := in[4].floats[n]
		for i, row := range t.alpha {
			for s, k := range t.states {
				v := g * math.Exp(row[s]+t.beta[i][s]+t.loss)
				at := (n*time+i)*classes + k
				e.floats[at] -= v
				e.scale[at] += math.Abs(v) * (3*float64(time) + 8)
			}
		}
	}
}

// completeCTC fills in what ctc_loss saves, and the losses.
func completeCTC(c sample.Sample, tensors []sample.Tensor) {
	in := arrays(tensors[:4])
	x := c.In[0].Shape
	alpha, loss := &tensors[5], &tensors[6]
	width := 2*c.In[1].Shape[1] + 1
	for i := range alpha.Floats {
		alpha.Floats[i] = sample.PutFloat(alpha.DType, alpha.Bytes, i, math.Inf(-1))
	}
	for n := range x[0] {
		t := ctcTableOf(c.Attrs.(op.Alignment), in, n)
		loss.Floats[n] = sample.PutFloat(loss.DType, loss.Bytes, n, t.loss)
		for i, row := range t.alpha {
			for s, v := range row {
				at := (n*x[1]+i)*width + s
				alpha.Floats[at] = sample.PutFloat(alpha.DType, alpha.Bytes, at, v)
			}
		}
	}
}
