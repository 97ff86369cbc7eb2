package backendtest

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// oracle is a device that computes with the reference itself, and then does
// something wrong.
type oracle struct {
	backend.Device
	fault func(c *backend.Call, out []byte)
}

func (*oracle) Allocate(n int) (memory.Region, error) {
	return memory.Region{Ptr: unsafe.Pointer(unsafe.SliceData(make([]byte, n))), Size: n}, nil
}
func (*oracle) Free(memory.Region) {}

func mem(b *memory.Block) []byte { return unsafe.Slice((*byte)(b.Ptr), b.Size) }

func (*oracle) CopyIn(dst *memory.Block, src []byte, release func()) error {
	copy(mem(dst), src)
	release()
	return nil
}

func (*oracle) CopyOut(dst []byte, src *memory.Block, offset int) error {
	copy(dst, mem(src)[offset:])
	return nil
}

func (d *oracle) Run(c *backend.Call) error {
	s := sample.Sample{Op: c.Op, Attrs: c.Attrs, Out: op.Spec{DType: c.Out.DType, Shape: c.Out.Shape}}
	var in []sample.Tensor
	for _, v := range c.In {
		x := sample.Tensor{DType: v.DType, Shape: v.Shape}
		if v.DType.IsFloat() {
			x.Floats = []float64{} // nil means integers
		}
		for i := range v.Elements() {
			p := v.Offset
			for ax, k := range coords(v.Shape, i) {
				p += k * v.Strides[ax]
			}
			from := unsafe.Slice((*byte)(unsafe.Pointer(&v.Bits)), 8)
			if !v.Const() {
				from = mem(v.Block)
			}
			if v.DType.IsFloat() {
				x.Floats = append(x.Floats, sample.GetFloat(v.DType, from, p))
			} else {
				x.Ints = append(x.Ints, sample.GetInt(v.DType, from, p))
			}
		}
		in = append(in, x)
	}
	e, out := evaluate(s, in), mem(c.Out.Block)
	e.put(out)
	for i := range c.More {
		e.more[i].put(mem(c.More[i].Block))
	}
	d.fault(c, out)
	return nil
}

func (a *array) put(out []byte) {
	for i := range a.len() {
		if a.floats != nil {
			sample.PutFloat(a.dtype, out, i, a.floats[i])
		} else {
			sample.PutInt(a.dtype, out, i, a.ints[i])
		}
	}
}

// What attention saves is looked at as its result is.
func TestFaultsInWhatIsSaved(t *testing.T) {
	for words, f := range map[string]func(saved []byte, n int){
		"off by": func(saved []byte, n int) {
			x := sample.GetFloat(dtype.Float32, saved, n-1) + 0.01
			if math.IsInf(x, 0) { // of a row that sees nothing
				x = 0
			}
			sample.PutFloat(dtype.Float32, saved, n-1, x)
		},
		"beyond": func(saved []byte, n int) { saved[4*n] = 0 },
	} {
		tried, noticed, msg := tries(op.Attend, dtype.Float32, func(c *backend.Call, _ []byte) {
			if len(c.More) > 0 {
				f(mem(c.More[0].Block), c.More[0].Elements())
			}
		})
		if noticed != tried && everyth() == 1 || !strings.Contains(msg, words) {
			t.Errorf("noticed in %d of %d samples: %s; want %q", noticed, tried, msg, words)
		}
	}
}

// tries runs all small samples of an op on a faulty device and returns how many
// faults were noticed, and one of the messages.
func tries(id op.ID, d dtype.DType, fault func(*backend.Call, []byte)) (tried, noticed int, message string) {
	s := &suite{}
	dev := &oracle{fault: fault}
	pool := memory.NewPool(dev)
	for _, c := range sample.Of(id, d) {
		if c.Big || op.Elements(c.Out.Shape) == 0 || thinned(c) {
			continue
		}
		tried++
		if err := s.try(dev, pool, c); err != nil {
			noticed++
			message = err.Error()
		}
	}
	return tried, noticed, message
}

func TestReferencePassesItself(t *testing.T) {
	for _, def := range op.All() {
		if def.Family == op.ViewFamily {
			continue
		}
		types := sample.DTypes(def.ID)
		d := types[len(types)-1]
		if tried, noticed, msg := tries(def.ID, d, func(*backend.Call, []byte) {}); tried == 0 && everyth() == 1 || noticed != 0 {
			t.Errorf("%s of %s: %d of %d samples differ: %s", def, d, noticed, tried, msg)
		}
	}
}

// Each fault is noticed in every sample.
func TestFaultsAreNoticed(t *testing.T) {
	last := func(c *backend.Call) int { return c.Out.Elements() - 1 }
	faults := []struct {
		name  string
		words string
		f     func(c *backend.Call, out []byte)
	}{
		{"an element that is not written", "want", func(c *backend.Call, out []byte) {
			n := c.Out.DType.Size()
			for i := range n {
				out[last(c)*n+i] = filler
			}
		}},
		{"a value that is off", "off by", func(c *backend.Call, out []byte) {
			x := sample.GetFloat(c.Out.DType, out, 0)
			sample.PutFloat(c.Out.DType, out, 0, x+math.Copysign(max(1e-3, math.Abs(x)/100), x))
		}},
		{"NaN", "NaN", func(c *backend.Call, out []byte) { sample.PutFloat(c.Out.DType, out, last(c), math.NaN()) }},
		{"a byte too many", "beyond", func(c *backend.Call, out []byte) { out[c.Out.Elements()*c.Out.DType.Size()] = 0 }},
	}
	for _, id := range []op.ID{op.Exp, op.Pow, op.Sum, op.MatMul, op.ScatterAdd, op.Conv2D, op.AvgPool, op.Softmax} {
		for _, f := range faults {
			tried, noticed, msg := tries(id, dtype.Float32, f.f)
			// Samples whose values are special or huge hide a small error or are NaN anyway.
			if noticed < tried*2/3 || noticed > 0 && !strings.Contains(msg, f.words) || noticed == 0 && everyth() == 1 {
				t.Errorf("%s: %s: noticed in %d of %d samples: %s", id, f.name, noticed, tried, msg)
			}
		}
		tried, noticed, msg := tries(id, dtype.Float32, func(c *backend.Call, out []byte) {
			for _, v := range c.In {
				if !v.Const() {
					mem(v.Block)[v.Offset*4] ^= 1
				}
			}
		})
		// A constant cannot be changed; where the result lies in the operand, it is the result that is wrong.
		if noticed < tried-3 || noticed > 0 && !strings.Contains(msg, "changed operand") && !strings.Contains(msg, "in place: ") {
			t.Errorf("%s: a changed operand: noticed in %d of %d samples: %s", id, noticed, tried, msg)
		}
	}
}

func TestTolerances(t *testing.T) {
	one := func(d dtype.DType, want, scale, units float64, exact, signs bool) *expected {
		return &expected{array: &array{dtype: d, shape: []int{1}, floats: []float64{want}}, scale: []float64{scale},
			units: units, halves: 1, exact: exact, signs: signs}
	}
	inf := math.Inf(1)
	negZero := math.Copysign(0, -1)
	for _, c := range []struct {
		e   *expected
		got float64
		ok  bool
	}{
		{one(dtype.Float32, 1, 0, 4, false, false), 1 + 4*0x1p-23, true},
		{one(dtype.Float32, 1, 0, 4, false, false), 1 + 5*0x1p-23, false},
		{one(dtype.Float32, 0, 1, 4, false, false), 4 * 0x1p-23, true},
		{one(dtype.Float32, 0, 1, 4, false, false), 5 * 0x1p-23, false},
		{one(dtype.Float16, 1, 0, 4, false, false), 1 + 0x1p-10, true},
		{one(dtype.Float16, 1, 0, 4, false, false), 1 + 2*0x1p-10, false},
		{one(dtype.BFloat16, 1, 0, 4, false, false), 1 + 0x1p-7, true},
		{one(dtype.BFloat16, 1, 0, 4, false, false), 1 + 2*0x1p-7, false},
		{one(dtype.Float32, 1, 0, 0, true, false), 1 + 0x1p-23, false},
		{one(dtype.Float32, 0.1, 0, 0, true, false), float64(float32(0.1)), true},
		{one(dtype.Float32, 0, 0, 0, true, true), negZero, false},
		{one(dtype.Float32, 0, 0, 0, true, false), negZero, true},
		{one(dtype.Float32, math.NaN(), 0, 4, false, false), 1, false},
		{one(dtype.Float32, 1, 0, 4, false, false), math.NaN(), false},
		{one(dtype.Float32, inf, 0, 4, false, false), math.MaxFloat32, false},
		{one(dtype.Float32, inf, inf, 4, false, false), 1, false},
		{one(dtype.Float32, math.MaxFloat32, 0, 4, false, false), inf, true},
		{one(dtype.Float32, 1e38, 0, 4, false, false), inf, false},
		{one(dtype.Float16, 65536, 0, 4, false, false), inf, true},
		{one(dtype.Float32, 1e-40, 0, 4, false, false), 0, true}, // flushed
		{one(dtype.Float32, 1e-37, 0, 4, false, false), 0, false},
		{one(dtype.Float32, 1e-40, 0, 0, true, false), 0, false},
	} {
		if err := c.e.checkFloat(0, c.got); (err == nil) != c.ok {
			t.Errorf("%v for %v (%s, exact %v): %v", c.got, c.e.floats[0], c.e.dtype, c.e.exact, err)
		}
	}
}
