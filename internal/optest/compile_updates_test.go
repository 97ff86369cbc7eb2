package optest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/program"
)

// Random programs that train: a graph of the bytes with variables as its leaves, its
// gradients, and an update of the variables. Each is taken eagerly, and compiled step by
// step, planned and recorded.

// variable is a cell of the program's own.
type variable struct{ t *locus.Tensor }

func (v *variable) Value() *locus.Tensor { return v.t }
func (v *variable) Set(t *locus.Tensor)  { v.t = t }

// trained is what a step changes.
type trained struct {
	data    []byte
	device  locus.Device
	how     int
	params  [3]variable
	slots   [3]variable
	average variable
	leaf    *locus.Tensor // collects gradients, or their sum
	trace   []string
}

const waysToTrain = 4

func newTrained(data []byte, d locus.Device) *trained {
	g := &graph{bytes: data, device: d, dtype: locus.Float32}
	t := &trained{data: data, device: d, how: g.next(waysToTrain)}
	for i := range t.params {
		t.params[i].t = g.leaf(i, 0).Copy()
	}
	t.average.t = d.Zeros()
	t.leaf = t.params[0].t.Copy().RequireGrad()
	return t
}

func (t *trained) cells() []locus.Cell {
	l := []locus.Cell{&t.average}
	for i := range t.params {
		l = append(l, &t.params[i], &t.slots[i])
	}
	return l
}

// step is the function that is compiled.
func (t *trained) step(args ...*locus.Tensor) []*locus.Tensor {
	g := &graph{bytes: t.data, device: t.device, dtype: locus.Float32, only: jumps}
	g.next(waysToTrain)
	for i := range t.params {
		g.leaf(i, 0) // the bytes of the leaves
		g.pool = append(g.pool, t.params[i].t.RequireGrad())
	}
	leaves := slices.Clone(g.pool)
	g.pool = append(g.pool, args[0], t.leaf)
	for g.at < len(g.bytes) && len(g.pool) < 20 {
		s := steps[g.next(len(steps))]
		y := s.do(g, g.pick())
		if y.Len() > 256 {
			y = y.Mean(0)
		}
		g.trace = append(g.trace, fmt.Sprintf("%s%v", s.name, y.Shape()))
		g.pool = append(g.pool, y)
	}
	t.trace = g.trace
	loss := t.device.Zeros()
	for i, x := range g.pool {
		loss = loss.Add(x.Mul(1 + float64(i%3)).Mean())
	}
	last := g.pool[len(g.pool)-1].Detach().Copy() // FreeGraph frees what it was
	value := loss.Detach().Copy()
	t.update(leaves, loss)
	t.average.Set(t.average.t.Blend(0.9, value, 0.1))
	return []*locus.Tensor{value, last}
}

// update changes the parameters in one of the ways.
func (t *trained) update(leaves []*locus.Tensor, loss *locus.Tensor) {
	if t.how == 0 { // gradients stay where they are collected, and add up
		loss.Backward()
		for i := range t.params {
			if gr := leaves[i].Grad(); gr != nil {
				t.params[i].Set(t.params[i].t.Sub(gr.Mul(0.01)))
			}
		}
		return
	}
	grads := locus.Grad([]*locus.Tensor{loss}, leaves, locus.FreeGraph)
	if t.how == 1 { // plain ops, one parameter by the old value of the next
		next := t.params[1].t
		for i, gr := range grads {
			t.params[i].Set(t.params[i].t.Blend(1, gr, -0.01))
		}
		if next.Len() == t.params[2].t.Len() {
			t.params[2].Set(t.params[2].t.Reshape(-1).Add(next.Reshape(-1)).Reshape(t.params[2].t.Shape()...))
		}
		return
	}
	list := make([]locus.Updating, len(leaves))
	for i := range list { // as optimizers do
		list[i] = locus.Updating{Value: t.params[i].t, Grad: grads[i], Free: true}
		if s := t.slots[i].t; s != nil {
			list[i].Slots = []*locus.Tensor{s}
		}
	}
	u := locus.Update{Rule: locus.UpdateSGD, Rate: 0.05, Momentum: 0.9}
	if t.how == 3 {
		u = locus.Update{Rule: locus.UpdateAdagrad, Rate: 0.05, Eps: 1e-3}
	}
	for i, x := range locus.UpdateAll(u, list, nil, nil) {
		t.params[i].Set(x.Value)
		t.slots[i].Set(x.Slots[0])
	}
}

// state is everything that a step has changed.
func (t *trained) state() []*locus.Tensor {
	l := []*locus.Tensor{t.average.t}
	for i := range t.params {
		l = append(l, t.params[i].t)
		if s := t.slots[i].t; s != nil {
			l = append(l, s)
		}
	}
	if g := t.leaf.Grad(); g != nil {
		l = append(l, g)
	}
	return l
}

// checkUpdates compares a few steps of training in all modes. It returns what the
// compiled functions say of themselves.
func checkUpdates(t *testing.T, data []byte) (explained []string) {
	for _, d := range devices() {
		// Arguments lie elsewhere in every other call.
		var args []*locus.Tensor
		for i := range 3 {
			args = append(args, d.From([]float32{0.5, -0.25, float32(i)}))
		}
		history := func(step func(args ...*locus.Tensor) []*locus.Tensor, x *trained) (all [][]byte) {
			for i := range 9 {
				var now [][]byte
				if err := guarded(func() {
					now = append(now, bits(step(args[max(i-5, 0)%3]))...)
					now = append(now, bits(x.state())...)
				}); err != nil {
					return append(all, []byte(fmt.Sprintf("%v", err)))
				}
				all = append(all, now...)
			}
			return all
		}
		eager := newTrained(data, d)
		want := history(eager.step, eager)
		for _, mode := range []program.Mode{program.Default, program.InPlan, program.Best} {
			old := program.SetMode(mode)
			x := newTrained(data, d)
			c := locus.Compile(x.step, x.cells()...)
			got := history(c.Call, x)
			if !sameBits(want, got) {
				t.Errorf("%s: mode %d differs: %d and %d tensors, last %.100q, %.100q\n%x\n%s\n%s", d, mode, len(want), len(got), want[len(want)-1], got[len(got)-1], data, strings.Join(x.trace, " "), c.Explain())
			}
			explained = append(explained, c.Fallback()+c.Explain())
			program.SetMode(old)
		}
	}
	return explained
}

// TestCompiledUpdates compares random programs that train.
func TestCompiledUpdates(t *testing.T) {
	n := 200 / every(10)
	compiled, recorded, donated := 0, 0, 0
	for seed := range n {
		for _, e := range checkUpdates(t, randomBytes(uint64(seed), 13)) {
			compiled += strings.Count(e, ": compiled\n")
			recorded += strings.Count(e, "  recorded: ")
			if strings.Contains(e, " variables updated in place") && !strings.Contains(e, " 0 variables updated in place") {
				donated++
			}
		}
	}
	t.Logf("%d programs: %d compiled, %d recorded, %d with variables updated in place", n, compiled, recorded, donated)
	if compiled < n || recorded < n/4 || donated < n {
		t.Errorf("of %d programs %d were compiled, %d recorded, %d have variables updated in place", n, compiled, recorded, donated)
	}
}

// FuzzCompiledUpdates looks for programs that train otherwise when they are compiled.
func FuzzCompiledUpdates(f *testing.F) {
	addGraphs(f, 17)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 200 {
			t.Skip("longer graphs only repeat")
		}
		checkUpdates(t, data)
	})
}
