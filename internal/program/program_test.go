package program

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

var three = op.Spec{DType: dtype.Float32, Shape: []int{3}}

func ref(v int) Ref {
	return Ref{Value: v, View: backend.View{DType: dtype.Float32, Shape: []int{3}, Strides: []int{1}}}
}

// sample is e = exp(a); b = e+e; dead = -e; returns b.
func sample() *Program {
	p := &Program{Values: []Value{{Kind: Arg, Spec: three, Bytes: 12}}}
	for range 3 {
		p.Values = append(p.Values, Value{Spec: three, Bytes: 12})
	}
	p.Steps = []Step{
		{Op: op.Exp, In: []Ref{ref(0)}, Out: ref(1)},
		{Op: op.Neg, In: []Ref{ref(1)}, Out: ref(2)},
		{Op: op.Add, In: []Ref{ref(1), ref(1)}, Out: ref(3)},
	}
	p.Results = []Ref{ref(3)}
	return p
}

func TestVerify(t *testing.T) {
	if err := sample().Verify(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(p *Program){
		"used before it is made": func(p *Program) { p.Steps[0].In[0].Value = 3 },
		"made twice":             func(p *Program) { p.Steps[2].Out.Value = 1 },
		"no value 9":             func(p *Program) { p.Steps[2].In[1].Value = 9 },
		"no value -3":            func(p *Program) { p.Results[0].Value = -3 },
		"at the start":           func(p *Program) { p.Steps[2].Out.View.Offset = 1 },
		"result 0":               func(p *Program) { p.Steps = p.Steps[:2] },
	} {
		p := sample()
		change(p)
		if err := p.Verify(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	room := sample()
	room.Values[3].Bytes = 8
	if room.Verify() == nil {
		t.Error("a result larger than its memory")
	}
}

func TestPrune(t *testing.T) {
	p := sample()
	if n := p.Prune(); n != 1 || len(p.Steps) != 2 || p.Steps[1].Op != op.Add {
		t.Errorf("left out %d of\n%s", n, p)
	}
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
	// A result behind the first keeps its step; so does an op that may fail.
	p = sample()
	p.Steps[1].More = []Ref{ref(len(p.Values))}
	p.Values = append(p.Values, Value{Spec: three, Bytes: 12})
	p.Results = []Ref{p.Steps[1].More[0]}
	if n := p.Prune(); n != 1 || len(p.Steps) != 2 || p.Steps[1].Op != op.Neg {
		t.Errorf("left out %d of\n%s", n, p)
	}
	p = sample()
	p.Steps[1].Op = op.Take
	if n := p.Prune(); n != 0 {
		t.Errorf("left out %d of\n%s", n, p)
	}
}

func TestDiff(t *testing.T) {
	if d := Diff(sample(), sample()); d != "" {
		t.Error(d)
	}
	for want, change := range map[string]func(p *Program){
		"neg at":               func(p *Program) { p.Steps[1].Op = op.Sin },
		"was not there before": func(p *Program) { p.Steps = p.Steps[:2] },
		"another layout":       func(p *Program) { p.Steps[2].In[1].View.Strides = []int{0} },
		"another value":        func(p *Program) { p.Steps[2].In[1].Value = 2 },
		"other parameters":     func(p *Program) { p.Steps[1].Attrs = op.Scales{A: 1} },
		"advance in one":       func(p *Program) { p.Steps[1].Late = func() op.Attrs { return nil } },
		"of kind arg":          func(p *Program) { p.Values[0].Kind = Captured },
		"number of results":    func(p *Program) { p.Results = nil },
		"another number":       func(p *Program) { p.Steps[2].In[1] = Ref{Value: -1, View: backend.View{Bits: 5}} },
	} {
		p := sample()
		change(p)
		if want == "another number" { // of both
			q := sample()
			q.Steps[2].In[1] = Ref{Value: -1, View: backend.View{Bits: 6}}
			if d := Diff(p, q); !strings.Contains(d, want) {
				t.Errorf("%s: %q", want, d)
			}
			continue
		}
		if d := Diff(p, sample()); !strings.Contains(d, want) {
			t.Errorf("%s: %q", want, d)
		}
	}
	a, b := sample(), sample()
	for i, p := range []*Program{a, b} {
		p.Values[0].Kind, p.Values[0].Data = Const, []byte{byte(i)}
	}
	if d := Diff(a, b); !strings.Contains(d, "other Go numbers") {
		t.Error(d)
	}
	for _, p := range []*Program{a, b} {
		p.Values[0].Kind, p.Values[0].Block = Captured, new(memory.Block)
	}
	if d := Diff(a, b); !strings.Contains(d, "from outside, and another one") {
		t.Error(d)
	}
}

func TestString(t *testing.T) {
	s := sample().String()
	for _, want := range []string{"%0 = arg float32 (3,)\n", "%3:float32(3,) = add(%1, %1)", "return %3\n"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q lacks %q", s, want)
		}
	}
}

// failing is a CPU that fails at the n-th call.
type failing struct {
	*cpu.Device
	left int
}

func (f *failing) Run(c *backend.Call) error {
	if f.left--; f.left == 0 {
		return errors.New("no more")
	}
	return f.Device.Run(c)
}

// TestRun checks what a run computes and frees, late attributes, operands that begin
// somewhere in their block, and that an error frees everything.
func TestRun(t *testing.T) {
	device := &failing{Device: cpu.Open()}
	pool := memory.NewPool(device)
	arg, err := pool.Allocate(20, func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	copy(unsafe.Slice((*float32)(arg.Ptr), 5), []float32{9, 9, 1, 2, 3})
	p := sample()
	factor := 1.0
	p.Steps[2].Op, p.Steps[2].Attrs = op.Blend, op.Scales{}
	p.Steps[2].Late = func() op.Attrs { return op.Scales{A: factor, B: 1} }
	p.Steps[0].Op = op.Neg
	r := NewRunner(p, device, pool)
	used := pool.Stats().InUse
	for i := range 4 {
		factor = float64(i)
		blocks, err := r.Run([]Binding{{Value: 0, Block: arg, Offset: 2}})
		if err != nil {
			t.Fatal(err)
		}
		if blocks[1] != nil || blocks[2] != nil || blocks[3] == nil {
			t.Error("temporary memory is not freed, or the result is")
		}
		for k, v := range unsafe.Slice((*float32)(blocks[3].Ptr), 3) {
			if want := -float32(k+1) * float32(i+1); v != want {
				t.Errorf("run %d: element %d is %v, want %v", i, k, v, want)
			}
		}
		blocks[3].Free()
		r.Clear()
		if now := pool.Stats().InUse; now != used {
			t.Errorf("%d bytes in use, before %d", now, used)
		}
	}
	for n := 1; n <= 3; n++ {
		device.left = n
		_, err := r.Run([]Binding{{Value: 0, Block: arg, Offset: 2}})
		var s *StepError
		if !errors.As(err, &s) || s.Step != &p.Steps[n-1] {
			t.Errorf("step %d: %v", n, err)
		}
		if now := pool.Stats().InUse; now != used || arg.Freed() {
			t.Errorf("%d bytes in use behind an error, before %d", now, used)
		}
	}
}
