package plain_test

import (
	"log"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/plain"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

type part struct {
	Name  string
	Sizes []int
	Next  *part
}

type model struct {
	Rate   float64
	hidden int32
	Parts  []*part
	ByName map[string]*part
	Any    any
	Fixed  [2]uint8
	F      func() int
	Mask   *locus.Tensor
	W      *locus.Tensor
	Layer  *nn.DropoutLayer
	Net    nn.Module
	Rand   *rand.Rand

	opt *optim.Optimizer
	log *log.Logger
}

func newModel() *model {
	m := &model{Rate: 1, Parts: []*part{{Name: "a", Sizes: []int{1, 2}}}, ByName: map[string]*part{"b": {Name: "b"}}, Any: 3, F: func() int { return 1 },
		Mask: locus.Ones(1), W: locus.Ones(1), Layer: nn.Dropout(0.5), Net: nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Rand: rand.New(rand.NewPCG(1, 2)), log: log.Default()}
	m.Parts[0].Next = m.Parts[0] // round and round
	m.opt = optim.SGD(nn.Parameters(m.Net), 1, optim.SGDOptions{})
	return m
}

// Each change of a plain value is seen, named and undone.
func TestChanges(t *testing.T) {
	for path, change := range map[string]func(m *model){
		"Rate":                func(m *model) { m.Rate = 2 },
		"hidden":              func(m *model) { m.hidden++ },
		"Parts[0].Name":       func(m *model) { m.Parts[0].Name = "c" },
		"Parts[0].Sizes[1]":   func(m *model) { m.Parts[0].Sizes[1] = 9 },
		"Parts[0].Sizes":      func(m *model) { m.Parts[0].Sizes = m.Parts[0].Sizes[:1] },
		"Parts":               func(m *model) { m.Parts = nil },
		"Parts[0].Next":       func(m *model) { m.Parts[0].Next = nil },
		"ByName[b].Name":      func(m *model) { m.ByName["b"].Name = "" },
		"Any":                 func(m *model) { m.Any = "three" },
		"Fixed[1]":            func(m *model) { m.Fixed[1] = 1 },
		"F":                   func(m *model) { m.F = nil },
		"Mask":                func(m *model) { m.Mask = nil },
		"Layer.P":             func(m *model) { m.Layer.P = 0.1 },
		"Net":                 func(m *model) { m.Net = nil },
		"Net.Layers[1]":       func(m *model) { m.Net.(*nn.SequentialLayer).Layers[1] = nn.Tanh() },
		"Rand.src":            func(m *model) { m.Rand = rand.New(rand.NewPCG(3, 4)) },
		"the state of a Rand": func(m *model) { m.Rand.Float64() },
	} {
		m := newModel()
		v := plain.Of(m, map[unsafe.Pointer]bool{unsafe.Pointer(&m.W): true})
		before := v.Digest()
		if v.Digest() != before || v.Restore() != "" {
			t.Fatal("nothing has changed")
		}
		change(m)
		if v.Digest() == before {
			t.Errorf("%s: the change is not seen", path)
		}
		if got := v.Restore(); got != path && path != "Rand.src" && path != "the state of a Rand" || got == "" {
			t.Errorf("%s: it is called %q", path, got)
		}
		if v.Digest() != before {
			t.Errorf("%s: not restored", path)
		}
	}
}

// What is a variable, belongs to others or takes care of itself is not looked at.
func TestOthersBusiness(t *testing.T) {
	m := newModel()
	v := plain.Of(m, map[unsafe.Pointer]bool{unsafe.Pointer(&m.W): true})
	before := v.Digest()
	m.W = locus.Zeros(1)
	m.opt.SetLR(3)
	m.log.SetPrefix("x")
	defer m.log.SetPrefix("")
	nn.Eval(m)
	nn.Freeze(m.Net)
	m.Net.Forward(locus.Ones(1, 2))
	nn.Train(m)
	m.Layer.Forward(locus.Ones(3))
	e := nn.Parameters(m.Net)[0]
	e.Set(e.Value().Detach().Mul(2))
	if v.Digest() != before {
		t.Error("changed:", v.Restore())
	}
}

func BenchmarkDigest(b *testing.B) {
	v := plain.Of(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), nil)
	for b.Loop() {
		v.Digest()
	}
}
