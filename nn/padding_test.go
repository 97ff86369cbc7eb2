package nn_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Sequences of different lengths are read as each would be alone: results, states and
// gradients, whatever lies behind their ends, as Go code and compiled.
func TestRunPadded(t *testing.T) {
	const n, steps, in, hidden = 4, 5, 3, 2
	lengths := []int{5, 1, 3, 4}
	for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
		for name, layer := range map[string]*nn.RecurrentLayer{
			"RNN":                 nn.RNN(in, hidden, nn.RecurrentOptions{ReLU: true}),
			"RNN both ways":       nn.RNN(in, hidden, nn.RecurrentOptions{Bidirectional: true, Layers: 2}),
			"GRU both ways":       nn.GRU(in, hidden, nn.RecurrentOptions{Bidirectional: true, Layers: 2}),
			"LSTM":                nn.LSTM(in, hidden, nn.RecurrentOptions{}),
			"LSTM both ways":      nn.LSTM(in, hidden, nn.RecurrentOptions{Bidirectional: true, Layers: 2}),
			"LSTM without biases": nn.LSTM(in, hidden, nn.RecurrentOptions{Bidirectional: true}, nn.NoBias()),
		} {
			t.Run(fmt.Sprint(name, " on ", d), func(t *testing.T) {
				l := nn.To(nn.Cast(layer, locus.Float64), d)
				m := d.As(locus.Float64)
				x := m.Key(locus.NewKey(1)).Randn(n, steps, in)
				h := m.Key(locus.NewKey(2)).Randn(len(l.Cells), n, hidden)
				var c *locus.Tensor
				if l.String() == "LSTM" {
					c = h.Mul(0.5)
				}
				params := nn.Values(nn.Parameters(l))
				weigh := func(y *locus.Tensor, s nn.RecurrentState) *locus.Tensor { // another weight for each number
					loss := y.Mul(y.Add(1)).Sum().Add(s.H.Square().Sum().Mul(0.7))
					if s.C != nil {
						loss = loss.Add(s.C.Mul(s.C).Sum().Mul(0.3))
					}
					return loss
				}
				// One after the other, without padding.
				var total *locus.Tensor
				rows, states, cells := make([]*locus.Tensor, n), make([]*locus.Tensor, n), make([]*locus.Tensor, n)
				leaf := x.RequireGrad()
				for i, length := range lengths {
					s := nn.RecurrentState{H: h.Narrow(1, i, i+1)}
					if c != nil {
						s.C = c.Narrow(1, i, i+1)
					}
					y, end := l.Run(leaf.Narrow(0, i, i+1).Narrow(1, 0, length), s)
					loss := weigh(y, end)
					if total == nil {
						total = loss
					} else {
						total = total.Add(loss)
					}
					rows[i], states[i], cells[i] = y.Pad(0, 0, 0, 0, steps-length, 0, 0), end.H, end.C
				}
				want := []*locus.Tensor{locus.Concat(0, rows...), locus.Concat(1, states...)}
				if c != nil {
					want = append(want, locus.Concat(1, cells...))
				}
				want = append(want, locus.GradOf(total, append(params, leaf)...)...)

				mask := nn.PaddingMask(d.From(lengths), steps).Reshape(n, steps, 1)
				dirty := mask.Where(x, math.NaN())
				f := func(a ...*locus.Tensor) []*locus.Tensor {
					in := a[0].RequireGrad()
					y, end := l.RunPadded(in, a[1], nn.RecurrentState{H: h, C: c})
					out := []*locus.Tensor{y.Detach(), end.H.Detach()}
					if c != nil {
						out = append(out, end.C.Detach())
					}
					return append(out, locus.GradOf(weigh(y, end), append(nn.Values(nn.Parameters(l)), in)...)...)
				}
				compiled := locus.Compile(f)
				for call := range 4 {
					got := f(dirty, d.From(lengths))
					if call > 0 {
						got = compiled.Call(dirty, d.From(lengths))
					}
					for k := range want {
						if !got[k].AllClose(want[k], 1e-12, 1e-12) {
							t.Errorf("call %d: result %d is\n%v\nnot\n%v", call, k, got[k], want[k])
						}
					}
				}
				if compiled.Fallback() != "" {
					t.Error(compiled.Fallback())
				}
			})
		}
	}
	// The lengths are checked.
	l := nn.GRU(2, 2, nn.RecurrentOptions{})
	x := locus.Ones(2, 3, 2)
	for _, bad := range []struct {
		lengths *locus.Tensor
		kind    error
	}{{locus.From([]int{1}), locus.ErrShape}, {locus.From([]float32{1, 2}), locus.ErrShape}, {locus.From([]int{0, 1}), locus.ErrIndex}, {locus.From([]int{4, 1}), locus.ErrIndex}} {
		if err := locus.Try(func() { l.RunPadded(x, bad.lengths, nn.RecurrentState{}) }); !errors.Is(err, bad.kind) {
			t.Errorf("%v: %v", bad.lengths, err)
		}
	}
	// In half precision the cell is kept to the bit.
	half := nn.Cast(nn.LSTM(2, 2, nn.RecurrentOptions{}), locus.Float16)
	in16 := locus.As(locus.Float16).Key(locus.NewKey(4)).Randn(1, 6, 2)
	_, alone := half.Run(in16.Narrow(1, 0, 2), nn.RecurrentState{})
	_, padded := half.RunPadded(in16, locus.From([]int{2}), nn.RecurrentState{})
	if !padded.C.AllClose(alone.C, 0, 0) || !padded.H.AllClose(alone.H, 0, 0) {
		t.Error("half precision:", padded.C, alone.C)
	}
}
