package program

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/virtual"

	"github.com/locusml/locus/dtype"
)

const side = 9

// random is a program of square matrices: values 0 and 1 are arguments, 2 to 4 what
// variables hold.
type random struct {
	values  []Value
	steps   []Step
	results []Ref
	wanted  []Donation
	factor  *float64
}

func square(v int) Ref {
	return Ref{Value: v, View: backend.View{DType: dtype.Float32, Shape: []int{side, side}, Strides: []int{side, 1}}}
}

const variables = 3

func randomProgram(r *rand.Rand) *random {
	g := &random{factor: new(float64)}
	spec := op.Spec{DType: dtype.Float32, Shape: []int{side, side}}
	add := func(k Kind) int {
		g.values = append(g.values, Value{Kind: k, Spec: spec, Bytes: 4 * side * side})
		return len(g.values) - 1
	}
	add(Arg)
	add(Arg)
	for range variables {
		add(State)
	}
	operand := func() Ref {
		o := square(r.IntN(len(g.values)))
		switch r.IntN(8) {
		case 0:
			o.View.Strides = []int{1, side}
		case 1:
			o.View.Strides, o.View.Offset = []int{0, 1}, side*r.IntN(side)
		case 2:
			o.View.Strides, o.View.Offset = []int{-side, 1}, side*(side-1)
		}
		return o
	}
	n := 3 + r.IntN(25)
	for range n {
		var s Step
		in := []Ref{operand(), operand()}
		switch r.IntN(9) {
		case 0:
			s = Step{Op: op.Neg, In: in[:1]}
		case 1:
			s = Step{Op: op.Abs, In: in[:1]}
		case 2:
			s = Step{Op: op.Add, In: in}
		case 3:
			s = Step{Op: op.Maximum, In: in}
		case 4:
			s = Step{Op: op.Where, In: append([]Ref{{Value: -1, View: backend.View{DType: dtype.Bool, Bits: uint64(r.IntN(2)), Shape: []int{side, side}, Strides: []int{0, 0}}}}, in...)}
		case 5:
			s = Step{Op: op.MatMul, In: in}
		case 6:
			s = Step{Op: op.CumSum, Attrs: op.Axis{Axis: 1}, In: in[:1]}
		case 7:
			s = Step{Op: op.Tanh, In: in[:1]}
		default:
			in[0], in[1] = square(in[0].Value), square(in[1].Value)
			f := g.factor
			s = Step{Op: op.Blend, Attrs: op.Scales{}, Late: func() op.Attrs { return op.Scales{A: *f, B: 0.5} }, In: in}
		}
		s.Out = square(add(Temp))
		g.steps = append(g.steps, s)
	}
	// What variables are set to is never shared.
	last := len(g.values) - 1
	picked := r.Perm(len(g.steps))[:min(variables, len(g.steps))]
	for k, i := range picked {
		g.results = append(g.results, g.steps[i].Out)
		g.wanted = append(g.wanted, Donation{2 + k, g.steps[i].Out.Value})
	}
	if v := square(last); !slices.ContainsFunc(g.results, func(x Ref) bool { return x.Value == last }) {
		g.results = append(g.results, v)
	}
	return g
}

func (g *random) program() *Program {
	p := &Program{Values: slices.Clone(g.values), Steps: slices.Clone(g.steps), Results: slices.Clone(g.results)}
	return p
}

// machine is a device with its pool, and how to fill and read a block.
type machine struct {
	backend.Device
	pool *memory.Pool
}

func machines() map[string]*machine {
	m := map[string]*machine{"cpu": {Device: cpu.Open()}, "virtual": {Device: virtual.New(0, 0)}}
	for _, x := range m {
		x.pool = memory.NewPool(x.Device)
	}
	return m
}

func (m *machine) block(t testing.TB, data []float32) *memory.Block {
	b, err := m.pool.Allocate(4*len(data), func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*len(data))
	if err := m.CopyIn(b, slices.Clone(bytes), nil); err != nil {
		t.Fatal(err)
	}
	return b
}

func (m *machine) read(t testing.TB, b *memory.Block, n int) []uint32 {
	data := make([]uint32, n)
	if err := m.CopyOut(unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*n), b, 0); err != nil {
		t.Fatal(err)
	}
	return data
}

// history runs a program some times, with arguments that sometimes lie elsewhere, and
// with variables that are held by others or set from outside now and then. It returns
// all results.
func (g *random) history(t testing.TB, m *machine, mode Mode, runs int) (all [][]uint32, e *Executor) {
	defer SetMode(SetMode(mode))
	p := g.program()
	e = NewExecutor(p, g.wanted, m.Device, m.pool)
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	fresh := func() *memory.Block {
		data := make([]float32, side*side)
		for i := range data {
			data[i] = float32(r.NormFloat64())
		}
		return m.block(t, data)
	}
	blocks := map[int]*memory.Block{}
	for v := range 2 + variables {
		blocks[v] = fresh()
	}
	for run := range runs {
		*g.factor = float64(run%3) / 2
		if r.IntN(4) == 0 {
			blocks[0] = fresh()
		}
		if r.IntN(10) == 0 {
			blocks[2] = fresh()
		}
		reader := r.IntN(8) == 0
		if reader {
			blocks[3].Hold()
		}
		held := blocks[3]
		var bindings []Binding
		for v := range 2 + variables {
			donated := slices.ContainsFunc(e.Donated(), func(d Donation) bool { return d.From == v })
			bindings = append(bindings, Binding{Value: v, Block: blocks[v], Offered: donated})
			blocks[v].Hold()
		}
		out, err := e.Run(bindings, run > 0)
		if err != nil {
			t.Fatal(err)
		}
		for v := range 2 + variables {
			blocks[v].LetGo()
		}
		for k, o := range g.results {
			all = append(all, m.read(t, out[o.Value], side*side))
			if k >= variables && p.Values[o.Value].Kind == Temp {
				out[o.Value].Free()
			}
		}
		if reader {
			all = append(all, m.read(t, held, side*side)) // it is as it was
			held.LetGo()
		}
		for k, d := range g.wanted {
			if over := e.Over(g.results[k].Value); over != blocks[d.From].Freed() {
				t.Errorf("written over is %v, freed is %v", over, !over)
			}
			blocks[d.From].Free()
			blocks[d.From] = out[g.results[k].Value]
		}
		e.Clear()
	}
	return all, e
}

// TestExecutors compares what random programs compute step by step, planned and
// recorded.
func TestExecutors(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 40
	}
	recordings, replays, donated := 0, 0, 0
	for seed := range n {
		g := randomProgram(rand.New(rand.NewPCG(uint64(seed), 2)))
		for name, m := range machines() {
			want, _ := g.history(t, m, Default, 12)
			for _, mode := range []Mode{InPlan, Best} {
				got, e := g.history(t, m, mode, 12)
				donated += len(e.donated)
				if r := e.recorded; r != nil {
					recordings, replays = recordings+r.records, replays+r.replays
				}
				for i := range want {
					if !slices.Equal(want[i], got[i]) {
						t.Fatalf("seed %d, %s, mode %d: result %d differs\n%s\n%q", seed, name, mode, i, g.program(), e.Explain())
					}
				}
			}
		}
	}
	if replays < n || donated < n {
		t.Errorf("%d recordings, %d replays, %d donations", recordings, replays, donated)
	}
	t.Logf("%d recordings, %d replays, %d donations", recordings, replays, donated)
}
