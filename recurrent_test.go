package locus

import (
	"errors"
	"math"
	"testing"
)

// naiveGates gives weight·x + bias of the input and of the state, gate by gate.
func naiveGates(x, h []float64, w CellWeights) (a, b []float64) {
	rows := func(w, bias *Tensor, x []float64) []float64 {
		ws, bs := ToSlice[float64](w), ToSlice[float64](bias)
		out := make([]float64, len(bs))
		for i := range out {
			out[i] = bs[i]
			for j, v := range x {
				out[i] += ws[i*len(x)+j] * v
			}
		}
		return out
	}
	return rows(w.Input, w.InputBias, x), rows(w.Hidden, w.HiddenBias, h)
}

func TestCells(t *testing.T) {
	const n, size = 3, 2
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	weights := func(gates int) ([]*Tensor, CellWeights) {
		in := randomly([]int{2, n}, []int{2, size}, []int{2, size}, []int{gates * size, n}, []int{gates * size, size}, []int{gates * size}, []int{gates * size})
		return in, CellWeights{in[3], in[4], in[5], in[6]}
	}
	of := func(in []*Tensor) CellWeights { return CellWeights{in[0], in[1], in[2], in[3]} }
	each := func(in []*Tensor, f func(x, h, c []float64) []float64) []float64 {
		var out []float64
		for b := range 2 {
			out = append(out, f(ToSlice[float64](in[0].Index(b)), ToSlice[float64](in[1].Index(b)), ToSlice[float64](in[2].Index(b)))...)
		}
		return out
	}

	in, w := weights(1)
	near(t, RNNCell(in[0], in[1], w, nil), each(in, func(x, h, _ []float64) []float64 {
		a, b := naiveGates(x, h, w)
		return []float64{math.Tanh(a[0] + b[0]), math.Tanh(a[1] + b[1])}
	}), 1e-14)
	near(t, RNNCell(in[0], in[1], w, (*Tensor).Relu), each(in, func(x, h, _ []float64) []float64 {
		a, b := naiveGates(x, h, w)
		return []float64{math.Max(0, a[0]+b[0]), math.Max(0, a[1]+b[1])}
	}), 1e-14)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return RNNCell(in[0], in[1], of(in[2:]), nil) }, in[0], in[1], in[3], in[4], in[5], in[6])
	without := RNNCell(in[0], in[1], CellWeights{Input: w.Input, Hidden: w.Hidden}, func(x *Tensor) *Tensor { return x })
	near(t, without, ToSlice[float64](Linear(in[0], w.Input, nil).Add(Linear(in[1], w.Hidden, nil))), 1e-14)

	in, w = weights(4)
	h, c := LSTMCell(in[0], in[1], in[2], w)
	cells := each(in, func(x, h, c []float64) []float64 {
		a, b := naiveGates(x, h, w)
		out := make([]float64, size)
		for i := range out {
			gate := func(k int) float64 { return a[k*size+i] + b[k*size+i] }
			out[i] = sigmoid(gate(1))*c[i] + sigmoid(gate(0))*math.Tanh(gate(2))
		}
		return out
	})
	near(t, c, cells, 1e-14)
	near(t, h, each(in, func(x, h, c []float64) []float64 {
		a, b := naiveGates(x, h, w)
		out := make([]float64, size)
		for i := range out {
			gate := func(k int) float64 { return a[k*size+i] + b[k*size+i] }
			out[i] = sigmoid(gate(3)) * math.Tanh(sigmoid(gate(1))*c[i]+sigmoid(gate(0))*math.Tanh(gate(2)))
		}
		return out
	}), 1e-14)
	gradGradCheck(t, func(in ...*Tensor) *Tensor {
		h, c := LSTMCell(in[0], in[1], in[2], of(in[3:]))
		return Concat(1, h, c)
	}, in...)

	in, w = weights(3)
	near(t, GRUCell(in[0], in[1], w), each(in, func(x, h, _ []float64) []float64 {
		a, b := naiveGates(x, h, w)
		out := make([]float64, size)
		for i := range out {
			gate := func(k int) float64 { return sigmoid(a[k*size+i] + b[k*size+i]) }
			fresh := math.Tanh(a[2*size+i] + gate(0)*b[2*size+i])
			out[i] = (1-gate(1))*fresh + gate(1)*h[i]
		}
		return out
	}), 1e-14)
	near(t, GRUCell(in[0].Index(0), in[1].Index(0), w), ToSlice[float64](GRUCell(in[0], in[1], w).Index(0)), 1e-15)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return GRUCell(in[0], in[1], of(in[2:])) }, in[0], in[1], in[3], in[4], in[5], in[6])

	for name, f := range map[string]func(){
		"weights of another cell": func() { LSTMCell(in[0], in[1], in[2], w) },
		"another batch":           func() { GRUCell(in[0], in[1].Narrow(0, 0, 1), w) },
		"no batch of the state":   func() { GRUCell(in[0], in[1].Index(0), w) },
		"another cell":            func() { LSTMCell(in[0], in[1], in[0], w) },
		"the input's size":        func() { GRUCell(in[1], in[1], w) },
	} {
		if err := Try(f); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v; want ErrShape", name, err)
		}
	}
	if err := Try(func() { GRUCell(in[0], in[1], CellWeights{Input: w.Input}) }); !errors.Is(err, ErrArgument) {
		t.Errorf("no weight: %v; want ErrArgument", err)
	}
}
