// Package programtest makes programs for tests of passes and of devices that run them.
package programtest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// Builder makes programs by hand.
type Builder struct{ program.Program }

// Value adds a value.
func (b *Builder) Value(kind program.Kind, t dtype.DType, shape ...int) program.Ref {
	b.Values = append(b.Values, program.Value{Kind: kind, Spec: op.Spec{DType: t, Shape: shape}, Bytes: op.Elements(shape) * t.Size()})
	return program.Ref{Value: len(b.Values) - 1, View: backend.View{DType: t, Shape: shape, Strides: op.Strides(shape)}}
}

// Step appends a call; operands are over one shape.
func (b *Builder) Step(id op.ID, a op.Attrs, in ...program.Ref) program.Ref {
	return b.StepAll(id, a, in...)[0]
}

// StepAll is Step of an op with further results, all of which it returns.
func (b *Builder) StepAll(id op.ID, a op.Attrs, in ...program.Ref) []program.Ref {
	specs := make([]op.Spec, len(in))
	for i := range in {
		specs[i] = op.Spec{DType: in[i].View.DType, Shape: in[i].View.Shape}
	}
	s, err := op.Check(id, a, specs)
	if err != nil {
		panic(err)
	}
	outs := []program.Ref{b.Value(program.Temp, s.DType, s.Shape...)}
	if more := op.Get(id).More; more != nil {
		for _, s := range more(a, specs) {
			outs = append(outs, b.Value(program.Temp, s.DType, s.Shape...))
		}
	}
	b.Steps = append(b.Steps, program.Step{Op: id, Attrs: a, In: in, Out: outs[0], More: outs[1:]})
	return outs
}

// Number is a constant over a shape.
func Number(t dtype.DType, bits uint64, shape []int) program.Ref {
	return program.Ref{Value: -1, View: backend.View{DType: t, Bits: bits, Shape: shape, Strides: make([]int, len(shape))}}
}

// Expand is r broadcast.
func Expand(r program.Ref, shape ...int) program.Ref {
	strides := make([]int, len(shape))
	for i := range r.View.Shape {
		j := len(shape) - len(r.View.Shape) + i
		if r.View.Shape[i] == shape[j] {
			strides[j] = r.View.Strides[i]
		}
	}
	r.View.Shape, r.View.Strides = shape, strides
	return r
}

// Turn is r with both axes exchanged.
func Turn(r program.Ref) program.Ref {
	r.View.Shape, r.View.Strides = []int{r.View.Shape[1], r.View.Shape[0]}, []int{r.View.Strides[1], r.View.Strides[0]}
	return r
}

// Reshape is r, which is contiguous, over another shape.
func Reshape(r program.Ref, shape ...int) program.Ref {
	r.View.Shape, r.View.Strides = shape, op.Strides(shape)
	return r
}

// Random makes elementwise steps, of ops that d fuses with some element type, and some
// others between, of random types over random views.
func Random(r *rand.Rand, steps int, d backend.Fuser) *program.Program {
	b := &Builder{}
	rows, cols := []int{1, 3, 7, 40}[r.IntN(4)], []int{1, 5, 33, 64, 129, 1024, 1027}[r.IntN(7)]
	full := []int{rows, cols}
	others := []int{3, 12, 40}[r.IntN(3)] // one step in so many is not elementwise
	var tensors []program.Ref             // over full
	add := func(x program.Ref) { tensors = append(tensors, x) }
	for _, t := range dtype.All {
		add(b.Value(program.Arg, t, rows, cols))
		add(Expand(b.Value(program.Arg, t, cols), rows, cols))
		add(Expand(b.Value(program.Arg, t, rows, 1), rows, cols))
		add(Expand(b.Value(program.Arg, t, 1, 1), rows, cols))
		add(Turn(b.Value(program.Arg, t, cols, rows)))
		wide := b.Value(program.Arg, t, rows, cols+3)
		wide.View.Shape, wide.View.Offset = full, 2
		add(wide)
		shifted := b.Value(program.Arg, t, rows*cols+1)
		shifted.View.Shape, shifted.View.Strides, shifted.View.Offset = full, op.Strides(full), 1
		add(shifted)
	}
	var defs []*op.Def
	for _, def := range op.All() {
		for _, t := range dtype.All {
			if elementwise(def) && def.KernelTypes().Has(t) && d.Fuses(def.ID, t, t) {
				defs = append(defs, def)
				break
			}
		}
	}
	pick := func(set dtype.Set) (program.Ref, bool) {
		for range 40 {
			k := len(tensors) - 1 - int(math.Abs(r.NormFloat64())*8) // mostly what was made last
			if r.IntN(4) == 0 || k < 0 {
				k = r.IntN(len(tensors))
			}
			if x := tensors[k]; set.Has(x.View.DType) {
				return x, true
			}
		}
		return program.Ref{}, false
	}
	for len(b.Steps) < steps {
		if r.IntN(others) == 0 { // not elementwise
			if x, ok := pick(dtype.Floats); ok {
				add(Expand(b.Step(op.Sum, op.Reduce{Axes: op.AxesOf(1)}, x), rows, cols))
			}
			continue
		}
		d := defs[r.IntN(len(defs))]
		var a op.Attrs
		if d.ID == op.CastTo {
			a = op.Cast{To: dtype.All[r.IntN(len(dtype.All))]}
		}
		in := make([]program.Ref, d.Arity)
		ok := true
		for i := range in {
			set := d.Accepts(i)
			if i > d.Leading() {
				set = dtype.Set(0).With(in[d.Leading()].View.DType)
			}
			var found bool
			in[i], found = pick(set)
			ok = ok && found
			if found && i > 0 && i > d.Leading() && r.IntN(5) == 0 {
				in[i] = Number(in[i].View.DType, map[int]uint64{1: 1, 2: 0x3f80, 4: 0x40490fdb, 8: 0x4009_21fb_5444_2d18}[in[i].View.DType.Size()], full)
			}
		}
		if !ok {
			continue
		}
		if r.IntN(8) == 0 { // over another shape
			flat := true
			for i := range in {
				flat = flat && (in[i].Value < 0 || in[i].View.Contiguous())
			}
			if flat {
				for i := range in {
					if in[i].Value < 0 {
						in[i] = Number(in[i].View.DType, in[i].View.Bits, []int{rows * cols})
					} else {
						in[i] = Reshape(in[i], rows*cols)
					}
				}
				add(Reshape(b.Step(d.ID, a, in...), rows, cols))
				continue
			}
		}
		add(b.Step(d.ID, a, in...))
	}
	for i := range b.Steps {
		if r.IntN(6) == 0 || i == len(b.Steps)-1 {
			b.Results = append(b.Results, b.Steps[i].Out)
		}
	}
	return &b.Program
}

// Fill makes an argument's elements.
func Fill(r *rand.Rand, t dtype.DType, data []byte) {
	size := t.Size()
	for i := 0; i+size <= len(data); i += size {
		p := unsafe.Pointer(&data[i])
		x := r.NormFloat64() * []float64{0.1, 1, 20}[r.IntN(3)]
		if r.IntN(50) == 0 {
			x = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, 1, -1}[r.IntN(8)]
		}
		switch t {
		case dtype.Bool:
			data[i] = byte(r.IntN(2))
		case dtype.Uint8:
			data[i] = byte(r.IntN(256))
		case dtype.Int32:
			*(*int32)(p) = int32(r.Uint32()) >> r.IntN(32)
		case dtype.Int64:
			*(*int64)(p) = int64(r.Uint64()) >> r.IntN(64)
		default:
			elem.PutBits(t, data[i:], elem.Bits(t, x))
		}
	}
}

// Results runs a program and returns what it makes; planned says that its values share
// memory.
func Results(t testing.TB, p *program.Program, device backend.Device, args map[int][]byte, planned bool) [][]byte {
	t.Helper()
	pool := memory.NewPool(device)
	defer pool.Trim()
	var outside []program.Binding
	for v, data := range args {
		b, err := pool.Allocate(len(data), func() memory.Label { return memory.Label{} })
		if err != nil {
			t.Fatal(err)
		}
		if err := device.CopyIn(b, data, nil); err != nil {
			t.Fatal(err)
		}
		outside = append(outside, program.Binding{Value: v, Block: b})
	}
	var blocks []*memory.Block
	var err error
	if planned {
		blocks, err = program.NewExecutor(p, nil, device, pool).Run(outside, false)
	} else {
		blocks, err = program.NewRunner(p, device, pool).Run(outside)
	}
	if err != nil {
		t.Fatal(err)
	}
	var l [][]byte
	for _, r := range p.Results {
		data := make([]byte, r.View.Elements()*r.View.DType.Size())
		if err := device.CopyOut(data, blocks[r.Value], 0); err != nil {
			t.Fatal(err)
		}
		l = append(l, data)
	}
	for _, r := range p.Results {
		blocks[r.Value].Free() // twice does nothing
	}
	for _, b := range outside {
		b.Block.Free()
	}
	return l
}

// Fuser is a device that runs fused programs.
type Fuser interface {
	backend.Device
	backend.Fuser
}

// Check compares a random program with what Fuse makes of it, to the bit. It returns
// how many steps were fused.
func Check(t testing.TB, seed uint64, steps int, d Fuser) (fused int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	return Compare(t, fmt.Sprintf("seed %d", seed), r, Random(r, steps, d), d)
}

// Compare compares a program with what Fuse makes of it, to the bit, with random
// arguments. It returns how many steps were fused.
func Compare(t testing.TB, what string, r *rand.Rand, p *program.Program, d Fuser) (fused int) {
	t.Helper()
	return compare(t, what, r, p, d, Fill)
}

func compare(t testing.TB, what string, r *rand.Rand, p *program.Program, d Fuser, fill func(*rand.Rand, dtype.DType, []byte)) (fused int) {
	t.Helper()
	args := map[int][]byte{}
	for i, v := range p.Values {
		if v.Kind == program.Arg {
			args[i] = make([]byte, v.Bytes)
			fill(r, v.Spec.DType, args[i])
		}
	}
	q := p.Fuse(d).FuseNorms(d.Supports)
	if err := q.Verify(); err != nil {
		t.Errorf("%s: %v\n%s", what, err, q)
		return 0
	}
	for i := range q.Steps {
		fused += len(q.Steps[i].Parts)
	}
	want := Results(t, p, d, args, false)
	for _, planned := range []bool{false, true} {
		got := Results(t, q, d, args, planned)
		if !same(t, fmt.Sprintf("%s, planned: %v", what, planned), q, want, got) {
			break
		}
	}
	return fused
}

// same compares results of a program.
func same(t testing.TB, what string, p *program.Program, want, got [][]byte) bool {
	t.Helper()
	for i := range want {
		if bytes.Equal(want[i], got[i]) {
			continue
		}
		typ := p.Results[i].View.DType
		size := typ.Size()
		at, n := -1, 0
		for k := 0; k < len(want[i]); k += size {
			if x, y := want[i][k:k+size], got[i][k:k+size]; !bytes.Equal(x, y) && !(isNaN(typ, x) && isNaN(typ, y)) {
				if n++; at < 0 {
					at = k
				}
			}
		}
		if n == 0 {
			continue
		}
		t.Errorf("%s: result %d (%%%d): %d of %d elements differ, first number %d: %x, fused %x (lowest byte first)\n%s", what, i, p.Results[i].Value, n, len(want[i])/size, at/size,
			want[i][at:at+size], got[i][at:at+size], p)
		return false
	}
	return true
}

// Equal reports whether two results have the same elements, to the bit but for which NaN
// a NaN is.
func Equal(t dtype.DType, want, got []byte) bool {
	size := t.Size()
	for k := 0; k < len(want); k += size {
		if x, y := want[k:k+size], got[k:k+size]; !bytes.Equal(x, y) && !(isNaN(t, x) && isNaN(t, y)) {
			return false
		}
	}
	return len(want) == len(got)
}

// isNaN reports whether an element is a NaN. Which one it is depends on the order in
// which an assembler lists operands: that is not part of the result.
func isNaN(t dtype.DType, element []byte) bool {
	return t.IsFloat() && math.IsNaN(elem.Get(t, element))
}

func elementwise(d *op.Def) bool {
	switch d.Family {
	case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		return true
	}
	return false
}
