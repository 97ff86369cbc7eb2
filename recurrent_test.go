package locus

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// naiveGates returns weight·x + bias of the input and of the state, gate by gate.
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

// stepped is a network of the three kinds by cells, step by step, and sequenced by one
// op: from x, h, c and the weights, the states and, behind them, an LSTM's last cell.
func stepped(kind string, reverse bool, in ...*Tensor) *Tensor {
	x, h, c, w := in[0], in[1], in[2], CellWeights{in[3], in[4], nil, nil}
	if len(in) > 5 {
		w.InputBias, w.HiddenBias = in[5], in[6]
	}
	states := make([]*Tensor, x.Dim(0))
	for i := range states {
		t := i
		if reverse {
			t = len(states) - 1 - i
		}
		switch kind {
		case "RNN":
			h = RNNCell(x.Index(t), h, w, nil)
		case "RNN ReLU":
			h = RNNCell(x.Index(t), h, w, (*Tensor).Relu)
		case "LSTM":
			h, c = LSTMCell(x.Index(t), h, c, w)
		case "GRU":
			h = GRUCell(x.Index(t), h, w)
		}
		states[t] = h
	}
	if kind == "LSTM" {
		states = append(states, c)
	}
	return Stack(0, states...)
}

func sequenced(kind string, reverse bool, in ...*Tensor) *Tensor {
	x, h, c, w, o := in[0], in[1], in[2], CellWeights{in[3], in[4], nil, nil}, SequenceOptions{Reverse: reverse}
	if len(in) > 5 {
		w.InputBias, w.HiddenBias = in[5], in[6]
	}
	switch kind {
	case "LSTM":
		y, last := LSTMSequence(x, h, c, w, o)
		return Concat(0, y, last.Unsqueeze(0))
	case "GRU":
		return GRUSequence(x, h, w, o)
	}
	o.Relu = kind == "RNN ReLU"
	return RNNSequence(x, h, w, o)
}

var sequenceKinds = map[string]int{"RNN": 1, "RNN ReLU": 1, "LSTM": 4, "GRU": 3} // gates

// A sequence in one op is what its cells give step by step, and so are the gradients
// of everything, on every device, in every type.
func TestSequencesAreTheirCells(t *testing.T) {
	real, all := devicesOf()
	if len(real) == 0 {
		t.Log("no GPU here: tried on the CPU and a virtual GPU")
	}
	for _, d := range all {
		for kind, gates := range sequenceKinds {
			for i, s := range [][4]int{{1, 1, 1, 1}, {5, 3, 4, 2}, {9, 2, 3, 7}, {4, 35, 20, 33}} {
				for _, dt := range []DType{Float32, Float64, BFloat16} {
					tolerance := map[DType]float64{Float32: 1e-5, Float64: 1e-12, BFloat16: 0.06}[dt]
					t.Run(fmt.Sprint(d, " ", dt, " ", kind, " ", s), func(t *testing.T) {
						l, n, in, h := s[0], s[1], s[2], s[3]
						shapes := [][]int{{l, n, in}, {n, h}, {n, h}, {gates * h, in}, {gates * h, h}, {gates * h}, {gates * h}}
						if i%2 == 1 {
							shapes = shapes[:5] // no biases
						}
						run := func(dt DType, f func(string, bool, ...*Tensor) *Tensor) []*Tensor {
							leaves := make([]*Tensor, len(shapes))
							for k, shape := range shapes {
								x := CPU().As(Float64).Key(NewKey(9).Fold(uint64(k))).Randn(shape...)
								if k > 2 {
									x = x.Div(math.Sqrt(float64(h)))
								}
								leaves[k] = x.Cast(BFloat16).Cast(dt).To(d).RequireGrad()
							}
							y := f(kind, i%2 == 0, leaves...)
							return append([]*Tensor{y}, Grad([]*Tensor{y.Cast(Float64).Square().Sum()}, leaves)...)
						}
						want, got := run(Float64, stepped), run(dt, sequenced)
						for k, w := range want {
							if got[k].DType() != dt {
								t.Fatalf("result %d is %v", k, got[k].DType())
							}
							size := w.Abs().Max().Item() + 1e-3
							if e := got[k].Cast(Float64).Sub(w).Abs().Max().Item(); !(e <= tolerance*size) {
								t.Errorf("result %d is off by %v of %v", k, e, size)
							}
						}
					})
				}
			}
		}
	}
}

func TestSequenceGradientsOfGradients(t *testing.T) {
	for kind, gates := range sequenceKinds {
		if kind == "RNN ReLU" {
			continue // not smooth
		}
		for _, reverse := range []bool{false, true} {
			in := randomly([]int{3, 2, 2}, []int{2, 2}, []int{2, 2}, []int{gates * 2, 2}, []int{gates * 2, 2}, []int{gates * 2}, []int{gates * 2})
			if kind != "LSTM" {
				cell := in[2]
				in = slices.Delete(in, 2, 3)
				gradGradCheck(t, func(in ...*Tensor) *Tensor {
					return sequenced(kind, reverse, slices.Insert(slices.Clone(in), 2, cell)...)
				}, in...)
				continue
			}
			gradGradCheck(t, func(in ...*Tensor) *Tensor { return sequenced(kind, reverse, in...) }, in...)
		}
	}
}

// A sequence is an op like any other: where features meet it.
func TestSequencesElsewhere(t *testing.T) {
	for kind, gates := range sequenceKinds {
		shapes := [][]int{{4, 3, 2}, {3, 5}, {3, 5}, {gates * 5, 2}, {gates * 5, 5}, {gates * 5}, {gates * 5}}
		in := randomly(shapes...)
		leaves := make([]*Tensor, len(in))
		for i, x := range in {
			leaves[i] = x.RequireGrad()
		}
		f := func(in ...*Tensor) *Tensor { return sequenced(kind, false, in...) }
		want := ToSlice[float64](f(in...))
		NoGrad(func() {
			if y := f(leaves...); y.RequiresGrad() {
				t.Error(kind, "records inside NoGrad")
			}
		})
		grads := Grad([]*Tensor{f(leaves...).Square().Sum()}, leaves)
		again := Grad([]*Tensor{Checkpoint(f, leaves...).Square().Sum()}, leaves)
		free := Grad([]*Tensor{f(leaves...).Square().Sum()}, leaves, FreeGraph)
		for i := range grads {
			near(t, again[i], ToSlice[float64](grads[i]), 0)
			near(t, free[i], ToSlice[float64](grads[i]), 0)
		}
		// Without the gradients of x and the first state, those of the weights are the same.
		plain := Grad([]*Tensor{f(append(slices.Clone(in[:3]), leaves[3:]...)...).Square().Sum()}, leaves[3:])
		for i := range plain {
			near(t, plain[i], ToSlice[float64](grads[3+i]), 0)
		}
		var batches []*Tensor
		for _, x := range in[:3] {
			batches = append(batches, Stack(0, x, x.Mul(2)))
		}
		mapped := Vmap(func(a ...*Tensor) *Tensor { return f(append(slices.Clone(a), in[3:]...)...) })(batches...)
		near(t, mapped.Index(0), want, 1e-14)
		// An empty batch gives empty states, and no gradient.
		empty := []*Tensor{CPU().As(Float64).Zeros(4, 0, 2), CPU().As(Float64).Zeros(0, 5), CPU().As(Float64).Zeros(0, 5)}
		y := f(append(empty, leaves[3:]...)...)
		for _, g := range Grad([]*Tensor{y.Sum()}, leaves[3:]) {
			if g.Abs().Max().Item() != 0 {
				t.Error(kind, "an empty batch has a gradient")
			}
		}
		// Operands that lie otherwise.
		strided := f(in[0].T().Contiguous().T(), in[1].T().Contiguous().T(), in[2].Expand(1, 3, 5).Index(0), in[3].T().Contiguous().T(), in[4].T().Contiguous().T(), in[5].Flip(0).Flip(0), in[6])
		near(t, strided, want, 1e-14)
	}
}
