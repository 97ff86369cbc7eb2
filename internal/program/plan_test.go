package program

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/op"
)

// TestPlan lays out a chain of values: two live at a time, and an op that may write over
// its operand does.
func TestPlan(t *testing.T) {
	big := op.Spec{DType: three.DType, Shape: []int{1000}}
	at := func(v int) Ref {
		r := ref(v)
		r.View.Shape = big.Shape
		return r
	}
	p := &Program{Values: []Value{{Kind: Arg, Spec: big, Bytes: 4000}}}
	for range 4 {
		p.Values = append(p.Values, Value{Spec: big, Bytes: 4000})
	}
	p.Steps = []Step{
		{Op: op.CumSum, In: []Ref{at(0)}, Out: at(1)},
		{Op: op.CumSum, In: []Ref{at(1)}, Out: at(2)},
		{Op: op.CumSum, In: []Ref{at(2)}, Out: at(3)},
		{Op: op.CumSum, In: []Ref{at(3)}, Out: at(4)},
	}
	p.Results = []Ref{at(4)}
	if plan := p.Plan(nil, false); plan.Arena != 2*4096 || plan.Reused != 0 || plan.Sum != 3*4096 || plan.Offset[4] != -1 || plan.Offset[0] != -1 {
		t.Errorf("%+v", plan)
	}
	if plan := p.Plan(nil, true); plan.Arena != 2*4096 || plan.Offset[4] < 0 {
		t.Errorf("results inside: %+v", plan)
	}
	for i := range p.Steps {
		p.Steps[i].Op = op.Exp
	}
	if plan := p.Plan(nil, false); plan.Arena != 4096 || plan.Reused != 2 {
		t.Errorf("written over: %+v", plan)
	}
	// Another view of the operand forbids it, and so does a later reader.
	p.Steps[1].Op, p.Steps[1].In = op.Add, []Ref{at(1), at(1)}
	p.Steps[1].In[1].View.Strides = []int{0}
	if plan := p.Plan(nil, false); plan.Arena != 2*4096 || plan.Reused != 1 {
		t.Errorf("a broadcast view: %+v", plan)
	}
	p.Steps[1].In[1] = at(1)
	p.Steps[3].Op, p.Steps[3].In = op.Add, []Ref{at(3), at(1)}
	if plan := p.Plan(nil, false); plan.Arena != 2*4096 || plan.Reused != 1 {
		t.Errorf("a later reader: %+v", plan)
	}
}

// checkPlan finds values that lie in one place although both are needed.
func checkPlan(t *testing.T, p *Program, plan *Plan) {
	t.Helper()
	last, makers := p.lastUses(), p.makers()
	for v := range p.Values {
		if plan.Offset[v] >= 0 && plan.Offset[v]+p.Values[v].Bytes > plan.Arena {
			t.Fatalf("value %d ends behind the arena", v)
		}
		for w := range v {
			if plan.Offset[v] < 0 || plan.Offset[w] < 0 || plan.Offset[v] >= plan.Offset[w]+p.Values[w].Bytes || plan.Offset[w] >= plan.Offset[v]+p.Values[v].Bytes {
				continue
			}
			a, b := v, w
			if makers[a] > makers[b] {
				a, b = b, a
			}
			if makers[b] > last[a] || makers[b] == last[a] && makers[a] < makers[b] && p.Steps[makers[b]].over(b, a) && plan.Offset[a] == plan.Offset[b] {
				continue
			}
			t.Fatalf("values %d and %d share memory\n%s", v, w, p)
		}
	}
}

func TestPlanRandom(t *testing.T) {
	reused, saved := 0, 0
	for seed := range 300 {
		g := randomProgram(rand.New(rand.NewPCG(uint64(seed), 1)))
		for _, inside := range []bool{false, true} {
			p := g.program()
			if err := p.Verify(); err != nil {
				t.Fatal(err)
			}
			done, _ := p.Donate(g.wanted)
			if err := p.Verify(); err != nil {
				t.Fatalf("behind Donate: %v", err)
			}
			plan := p.Plan(done, inside)
			checkPlan(t, p, plan)
			reused += plan.Reused
			saved += plan.Sum - plan.Arena
		}
	}
	if reused < 100 || saved < 100<<10 {
		t.Errorf("%d values written over operands, %d bytes saved", reused, saved)
	}
}

// updating is s' = a·s + b·x as a program with the variable s, and steps around it.
func updating(before, behind []Step) *Program {
	p := &Program{Values: []Value{{Kind: Arg, Spec: three, Bytes: 12}, {Kind: State, Spec: three, Bytes: 64}}}
	for range 8 {
		p.Values = append(p.Values, Value{Spec: three, Bytes: 12})
	}
	update := Step{Op: op.Blend, Attrs: op.Scales{A: 1, B: 1}, In: []Ref{ref(1), ref(0)}, Out: ref(2)}
	p.Steps = append(append(append(p.Steps, before...), update), behind...)
	p.Results = []Ref{ref(2)}
	return p
}

func TestDonate(t *testing.T) {
	wanted := []Donation{{1, 2}}
	step := func(id op.ID, out int, in ...int) Step {
		s := Step{Op: id, Out: ref(out)}
		for _, i := range in {
			s.In = append(s.In, ref(i))
		}
		return s
	}
	for name, c := range map[string]struct {
		p    *Program
		want string // "" if it is done
	}{
		"alone":              {updating(nil, nil), ""},
		"readers before":     {updating([]Step{step(op.Softmax, 3, 1)}, nil), ""},
		"a plain reader":     {updating(nil, []Step{step(op.Exp, 3, 1)}), "needs the old value"},
		"a reader of result": {updating(nil, []Step{step(op.Exp, 3, 2)}), ""},
		// It is moved behind what may fail, and behind readers.
		"may fail":             {updating(nil, []Step{step(op.Take, 3, 0)}), ""},
		"reader that may fail": {updating(nil, []Step{step(op.CumSum, 3, 1)}), ""},
		"used by what may":     {updating(nil, []Step{step(op.CumSum, 3, 2)}), "may fail"},
	} {
		c.p.Results = append(c.p.Results, ref(0))
		done, refused := c.p.Donate(wanted)
		if err := c.p.Verify(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if (len(done) == 1) != (c.want == "") || c.want != "" && !strings.Contains(strings.Join(refused, ""), c.want) {
			t.Errorf("%s: done %v, refused %q\n%s", name, done, refused, c.p)
		}
	}
	// The operand is read by what cannot write over it.
	p := updating(nil, nil)
	p.Steps[0] = step(op.Maximum, 2, 1, 1)
	p.Steps[0].In[1].View.Strides = []int{0}
	if done, _ := p.Donate(wanted); len(done) != 0 {
		t.Error("written over a broadcast operand")
	}
	// Sizes differ, and one value serves two variables.
	p = updating(nil, nil)
	p.Values[1].Spec.Shape = []int{4}
	if done, _ := p.Donate(wanted); len(done) != 0 {
		t.Error("of another size")
	}
	p = updating(nil, nil)
	if done, _ := p.Donate([]Donation{{1, 2}, {1, 2}}); len(done) != 1 {
		t.Errorf("donated %v", done)
	}
}
