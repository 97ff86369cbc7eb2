package optest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// A graph is an expression that bytes describe: leaves, then steps, each of which
// applies an op to tensors that are there already. The same bytes make the same graph
// on every device.
type graph struct {
	bytes  []byte
	at     int
	device locus.Device
	dtype  locus.DType
	pool   []*locus.Tensor
	trace  []string
	only   smoothness // steps that are less smooth are left out
	least  smoothness // the least smooth of those that were used
}

// smoothness says what may be compared.
type smoothness int

const (
	smooth smoothness = iota // everything
	kinks                    // the slope jumps, or is not the gradient: no finite differences
	jumps                    // the value jumps: rounding may change everything
)

// next reads a number below n; 0 where the bytes end.
func (g *graph) next(n int) int {
	if g.at >= len(g.bytes) || n <= 1 {
		return 0
	}
	b := int(g.bytes[g.at])
	g.at++
	return b % n
}

func (g *graph) pick() *locus.Tensor { return g.pool[g.next(len(g.pool))] }

// leaf makes leaf i, moved by shift along a direction of its own.
func (g *graph) leaf(i int, shift float64) *locus.Tensor {
	shape := make([]int, g.next(4))
	for j := range shape {
		shape[j] = 1 + g.next(4)
	}
	seed := uint64(g.next(256))
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float64, n)
	for j := range v {
		v[j] = math.Round(r.NormFloat64()*64)/64 + 1.0/256 + shift*r.Float64()
	}
	return g.device.From(v).Cast(g.dtype).Reshape(shape...)
}

// tame keeps numbers from growing from step to step.
func tame(t *locus.Tensor) *locus.Tensor { return t.Mul(0.5).Tanh() }

func positive(t *locus.Tensor) *locus.Tensor { return t.Square().Add(0.5) }

// steps are the ops that graphs are made of. Each takes what it needs from the
// pool and makes it fit.
var steps = []struct {
	name string
	kind smoothness
	do   func(g *graph, x *locus.Tensor) *locus.Tensor
}{
	{"add", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Add(g.fitting(x)) }},
	{"sub", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Sub(g.fitting(x)) }},
	{"mul", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return tame(x.Mul(g.fitting(x))) }},
	{"div", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Div(positive(g.fitting(x))) }},
	{"pow", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return tame(positive(x).Pow(tame(g.fitting(x)))) }},
	{"atan2", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Atan2(positive(g.fitting(x))) }},
	{"maximum", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Maximum(g.fitting(x)) }},
	{"minimum", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Minimum(g.fitting(x)) }},
	{"where", jumps, func(g *graph, x *locus.Tensor) *locus.Tensor {
		y := g.fitting(x)
		return x.Gt(0).Where(x, y)
	}},
	{"neg", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Neg() }},
	{"exp", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return tame(x).Exp() }},
	{"expm1", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return tame(x).Expm1() }},
	{"log", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return positive(x).Log() }},
	{"log1p", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Square().Log1p() }},
	{"sqrt", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return positive(x).Sqrt() }},
	{"rsqrt", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return positive(x).Rsqrt() }},
	{"reciprocal", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return positive(x).Reciprocal() }},
	{"sin", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Sin() }},
	{"cos", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Cos() }},
	{"tanh", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Tanh() }},
	{"atan", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Atan() }},
	{"asinh", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Asinh() }},
	{"erf", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Erf() }},
	{"sigmoid", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Sigmoid() }},
	{"softplus", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Softplus() }},
	{"gelu", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Gelu() }},
	{"gelu_tanh", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.GeluTanh() }},
	{"silu", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Silu() }},
	{"relu", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Relu() }},
	{"abs", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Abs() }},
	{"floor", jumps, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Floor() }},
	{"sum", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return tame(x.Sum(g.axes(x)...)) }},
	{"mean", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.MeanKeep(g.axes(x)...) }},
	{"prod", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return tame(x.Prod(g.axes(x)...)) }},
	{"max", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Max(g.axes(x)...) }},
	{"min", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.MinKeep(g.axes(x)...) }},
	{"logsumexp", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.LogSumExp(g.axes(x)...) }},
	{"var", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return tame(x.VarBiased(g.axes(x)...)) }},
	{"softmax", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { x = ranked(x, 1); return x.Softmax(g.next(x.Rank())) }},
	{"log_softmax", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		return x.LogSoftmax(g.next(x.Rank()))
	}},
	{"layer_norm", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		return locus.LayerNorm(x, x.Shape()[x.Rank()-1:], nil, nil, 0.5)
	}},
	{"matmul", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 2)
		return tame(x.MatMul(x.Cos().T()))
	}},
	{"linear", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		w := x.Reshape(-1, x.Dim(-1)).Sin()
		return tame(locus.Linear(x, w, g.pick().Mean().Expand(w.Dim(0))))
	}},
	{"attention", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 2)
		return locus.Attention(x, x.Sin(), x, locus.AttentionOptions{Causal: g.next(2) == 1})
	}},
	{"conv1d", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 2)
		x = x.Reshape(-1, x.Dim(-2), x.Dim(-1))
		w := x.Mean(0).Unsqueeze(0) // (1, C, L)
		return tame(locus.Conv1D(x, w, nil, locus.ConvOptions{Padding: locus.Pair(x.Dim(-1) / 2)}))
	}},
	{"avg_pool", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 3)
		return locus.AvgPool1D(x.Reshape(-1, x.Dim(-2), x.Dim(-1)), 1+g.next(x.Dim(-1)), locus.PoolOptions{Stride: 1})
	}},
	{"max_pool", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 3)
		return locus.MaxPool1D(x.Reshape(-1, x.Dim(-2), x.Dim(-1)), 1+g.next(x.Dim(-1)), locus.PoolOptions{Stride: 1})
	}},
	{"transpose", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 2)
		return x.Transpose(g.next(x.Rank()), g.next(x.Rank()))
	}},
	{"flip", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { x = ranked(x, 1); return x.Flip(g.next(x.Rank())) }},
	{"narrow", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		a := g.next(x.Rank())
		from := g.next(x.Dim(a))
		return x.Narrow(a, from, from+1+g.next(x.Dim(a)-from))
	}},
	{"every other", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		return x.Slice(locus.R(0, x.Dim(0), 2))
	}},
	{"reshape", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Flatten() }},
	{"expand", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		if x.Rank() > 3 {
			return x
		}
		return x.Expand(append([]int{1 + g.next(3)}, x.Shape()...)...)
	}},
	{"concat", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		return locus.Concat(g.next(x.Rank()), x, x.ZerosLike().Add(g.pick().Mean()))
	}},
	{"pad", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		return x.Pad(0.5, g.next(2), g.next(2))
	}},
	{"roll", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { x = ranked(x, 1); return x.Roll(g.next(3), 0) }},
	{"cumsum", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		return tame(x.CumSum(g.next(x.Rank())))
	}},
	{"take", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		n := x.Dim(0)
		return x.Take(0, g.device.From([]int64{int64(g.next(n)), int64(g.next(n)), 0}))
	}},
	{"gather", jumps, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		a := g.next(x.Rank())
		return x.Gather(a, x.ArgSort(a, g.next(2) == 1))
	}},
	{"diagonal", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 2)
		return x.Diagonal(0, 0, 1)
	}},
	{"erfc", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Erfc() }},
	{"log_add_exp", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.LogAddExp(g.fitting(x)) }},
	{"fmod", jumps, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Fmod(positive(g.fitting(x))) }},
	{"clamp below", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.ClampMin(0.25) }},
	{"masked_fill", jumps, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.MaskedFill(x.Lt(0), 0.5) }},
	{"cummax", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		v, _ := x.CumMax(g.next(x.Rank()))
		return v
	}},
	{"max with positions", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		v, _ := x.MaxWithPositions(g.next(x.Rank()))
		return v
	}},
	{"quantile", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor { return x.Quantile(float64(g.next(5))/4, g.axes(x)...) }},
	{"std", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor {
		return tame(x.VarWith(locus.VarOptions{Keep: g.next(2) == 1}, g.axes(x)...))
	}},
	{"scatter", jumps, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		a := g.next(x.Rank())
		return x.Scatter(a, x.ArgSort(a, g.next(2) == 1), x.Sin())
	}},
	{"repeat_interleave", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		return x.RepeatInterleave(1+g.next(2), g.next(x.Rank()))
	}},
	{"unbind", smooth, func(g *graph, x *locus.Tensor) *locus.Tensor {
		x = ranked(x, 1)
		parts := x.Unbind(g.next(x.Rank()))
		return parts[g.next(len(parts))]
	}},
	{"detached", kinks, func(g *graph, x *locus.Tensor) *locus.Tensor {
		return x.Mul(x.Detach())
	}},
	{"cast", jumps, func(g *graph, x *locus.Tensor) *locus.Tensor {
		return x.Cast(locus.Float32).Cast(g.dtype)
	}},
}

// ranked puts axes of size 1 in front until there are n.
func ranked(x *locus.Tensor, n int) *locus.Tensor {
	for x.Rank() < n {
		x = x.Unsqueeze(0)
	}
	return x
}

// fitting returns a tensor of the pool that broadcasts with x, made so if need be.
func (g *graph) fitting(x *locus.Tensor) *locus.Tensor {
	y := g.pick()
	a, b := x.Shape(), y.Shape()
	slices.Reverse(a)
	slices.Reverse(b)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && a[i] != 1 && b[i] != 1 {
			return y.Mean()
		}
	}
	if len(b) > len(a) || y.Len() > x.Len() {
		return y.Mean()
	}
	return y
}

// axes returns one axis, or none, which stands for all.
func (g *graph) axes(x *locus.Tensor) []int {
	if k := g.next(x.Rank() + 1); k < x.Rank() {
		return []int{k}
	}
	return nil
}

// run builds the graph on a device and returns the leaves and the weighted sum of
// everything computed.
func (g *graph) run(shift float64) (leaves []*locus.Tensor, loss *locus.Tensor) {
	g.only = smoothness(g.next(3))
	for i := range 3 {
		l := g.leaf(i, shift).RequireGrad()
		leaves = append(leaves, l)
	}
	g.pool = slices.Clone(leaves)
	for g.at < len(g.bytes) && len(g.pool) < 27 {
		s := steps[g.next(len(steps))]
		if s.kind > g.only {
			continue
		}
		g.least = max(g.least, s.kind)
		y := s.do(g, g.pick())
		if y.Len() > 256 {
			y = y.Mean(0)
		}
		g.trace = append(g.trace, fmt.Sprintf("%s%v", s.name, y.Shape()))
		g.pool = append(g.pool, y)
	}
	for i, t := range g.pool {
		part := t.Mul(1 + float64(i%3)).Mean()
		if loss == nil {
			loss = part
		} else {
			loss = loss.Add(part)
		}
	}
	return leaves, loss
}

// outcome is the result of a graph on a device.
type outcome struct {
	loss  *locus.Tensor
	grads []*locus.Tensor
	g     *graph
}

func runGraph(data []byte, d locus.Device, dt locus.DType, opts ...locus.GradOption) (o outcome) {
	g := &graph{bytes: data, device: d, dtype: dt}
	leaves, loss := g.run(0)
	return outcome{loss.Detach(), locus.Grad([]*locus.Tensor{loss}, leaves, opts...), g}
}

func (o outcome) tensors() []*locus.Tensor { return append([]*locus.Tensor{o.loss}, o.grads...) }

// checkGraph runs the graph that data describe on every device.
func checkGraph(t *testing.T, data []byte) (isSmooth bool) {
	for _, dt := range []locus.DType{locus.Float32, locus.Float64} {
		cpu := runGraph(data, locus.CPU(), dt)
		steps := strings.Join(cpu.g.trace, " ")
		want := bits(cpu.tensors())
		for _, d := range devices()[1:] {
			got := runGraph(data, d, dt, locus.FreeGraph)
			if d == virtual {
				if !sameBits(want, bits(got.tensors())) {
					t.Errorf("%s: the virtual GPU's result is not the CPU's\n%x\n%s", dt, data, steps)
				}
				continue
			}
			for i, x := range got.tensors() {
				w := values(cpu.tensors()[i])
				rel := map[locus.DType]float64{locus.Float32: 2e-3, locus.Float64: 1e-9}[dt]
				if err := closeTo(values(x), w, rel, rel*max(largest(w), 1e-2)); err != nil && cpu.g.least == smooth {
					t.Errorf("%s on %s: result %d %v\n%x\n%s", dt, d, i, err, data, steps)
				}
			}
		}
		// Recording the computation of gradients must not change them.
		if again := runGraph(data, locus.CPU(), dt, locus.CreateGraph); !sameBits(want, bits(again.tensors())) {
			t.Errorf("%s: gradients with CreateGraph differ\n%x\n%s", dt, data, steps)
		}
		if dt == locus.Float64 && cpu.g.least == smooth {
			isSmooth = true
			checkSlope(t, data, cpu, steps)
		}
	}
	return isSmooth
}

// checkSlope compares the gradient along a direction with a central difference.
func checkSlope(t *testing.T, data []byte, o outcome, steps string) {
	at := func(shift float64) (leaves []*locus.Tensor, loss float64) {
		g := &graph{bytes: data, device: locus.CPU(), dtype: locus.Float64}
		l, y := g.run(shift)
		return l, y.Item()
	}
	// The direction is what a shift of 1 adds.
	base, _ := at(0)
	moved, _ := at(1)
	want := 0.0
	for i, g := range o.grads {
		want += g.Mul(moved[i].Sub(base[i]).Detach()).Sum().Item()
	}
	const h = 1e-5
	_, up := at(h)
	_, down := at(-h)
	got := (up - down) / (2 * h)
	if math.Abs(got-want) > 1e-3*math.Abs(want)+1e-5 && !math.IsNaN(want) {
		t.Errorf("the slope is %v by gradients, %v by differences\n%x\n%s", want, got, data, steps)
	}
}

// TestGraphs compares random graphs across devices.
func TestGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n, fit := 400/every(10), 0
	for range n {
		data := make([]byte, 12+r.IntN(60))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if err := guarded(func() {
			if checkGraph(t, data) {
				fit++
			}
		}); err != nil {
			t.Errorf("%v\n%x", err, data)
		}
	}
	t.Logf("%d graphs, %d of them fit for finite differences", n, fit)
}

// addGraphs seeds a fuzz test with graphs.
func addGraphs(f *testing.F, stream uint64) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, stream))
		data := make([]byte, 40)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
}

// FuzzGraph looks for graphs that differ between devices.
func FuzzGraph(f *testing.F) {
	addGraphs(f, 3)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 200 {
			t.Skip("longer graphs only repeat")
		}
		if err := guarded(func() { checkGraph(t, data) }); err != nil {
			t.Errorf("%v\n%x", err, data)
		}
	})
}
