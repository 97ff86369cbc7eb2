//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/program/programtest"
	"github.com/locusml/locus/internal/ptx"
)

// Every elementwise op that has a kernel has a body of the same name, or a reason.
func TestBodiesOfAllOps(t *testing.T) {
	d := &Device{}
	var missing []string
	for _, def := range op.All() {
		switch def.Family {
		case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		default:
			if d.Fuses(def.ID, dtype.Float32, dtype.Float32) {
				t.Errorf("%s is not elementwise", def)
			}
			continue
		}
		for _, typ := range dtype.All {
			outs := []dtype.DType{typ}
			if def.ID == op.CastTo {
				outs = dtype.All
			}
			for _, out := range outs {
				if def.KernelTypes().Has(typ) && !d.Fuses(def.ID, typ, out) {
					missing = append(missing, bodyOf(def.ID, typ, out))
				}
			}
		}
	}
	for _, name := range missing {
		if stem, _, _ := strings.Cut(name, "_"); stem != "sin" && stem != "cos" && stem != "tan" && name != "pow_f64" && name != "acosh_f64" {
			t.Errorf("there is no body %s in scalars.ptx, which is made of the macros of unary.cu and binary.cu: add the op there and generate (CONTRIBUTING.md, CUDA kernels)", name)
		}
	}
}

// How operands are found is decided as the kernels need it.
func TestFusedModes(t *testing.T) {
	block := &memory.Block{Region: memory.Region{Addr: 1 << 20, Size: 1 << 20}}
	view := func(offset int, shape, strides []int) backend.View {
		return backend.View{Block: block, Offset: offset, Shape: shape, Strides: strides, DType: dtype.Float32}
	}
	for _, c := range []struct {
		v    backend.View
		w    int
		want ptx.Mode
	}{
		{backend.View{Shape: []int{8}, Strides: []int{0}, DType: dtype.Float32}, 4, ptx.Constant},
		{view(0, []int{3, 5}, []int{5, 1}), 4, ptx.Wide},
		{view(2, []int{3, 5}, []int{5, 1}), 4, ptx.Each},
		{view(2, []int{3, 5}, []int{5, 1}), 2, ptx.Wide},
		{view(1, []int{3, 5}, []int{0, 0}), 4, ptx.Uniform},
		{view(0, []int{3, 8}, []int{0, 1}), 4, ptx.Row},
		{view(1, []int{3, 8}, []int{0, 1}), 4, ptx.Scattered},
		{view(0, []int{3, 8}, []int{9, 1}), 4, ptx.Scattered},
		{view(0, []int{3, 8}, []int{12, 1}), 4, ptx.Row},
		{view(0, []int{3, 6}, []int{0, 1}), 4, ptx.Scattered},
		{view(0, []int{3, 6, 1, 2}, []int{0, 2, 7, 1}), 4, ptx.Row},
		{view(0, []int{3, 8}, []int{1, 0}), 4, ptx.Splat},
		{view(3, []int{3, 6}, []int{1, 0}), 4, ptx.Scattered},
		{view(3, []int{3, 2, 2}, []int{1, 0, 0}), 4, ptx.Splat},
		{view(0, []int{4, 8}, []int{1, 4}), 4, ptx.Scattered},
	} {
		if got := modeOf(&c.v, c.w); got != c.want {
			t.Errorf("%v, strides %v from %d by %d: mode %d, want %d", c.v.Shape, c.v.Strides, c.v.Offset, c.w, got, c.want)
		}
	}
}

// compiled fails the test if an expression could not be compiled.
func compiled(t testing.TB) {
	t.Helper()
	fuseErrors.Lock()
	defer fuseErrors.Unlock()
	if fuseErrors.last != nil {
		t.Errorf("the driver refuses a fused kernel: %v", fuseErrors.last)
	}
}

// waitForKernels makes expressions wait for their kernels, so that the test is of these.
func waitForKernels(t testing.TB) {
	old := fusedWait
	fusedWait = true
	t.Cleanup(func() { fusedWait = old })
}

// oneOp is a program of an op between a product and a sum, where there are such: what
// the assembler must not fuse with it.
func oneOp(def *op.Def, typ, out dtype.DType, n int, all bool) *program.Program {
	b := &programtest.Builder{}
	arg := func(t dtype.DType) program.Ref { return b.Value(program.Arg, t, n) }
	var a op.Attrs
	if def.ID == op.CastTo {
		a = op.Cast{To: out}
	}
	in := make([]program.Ref, def.Arity)
	for i := range in {
		t := typ
		if i < def.Leading() {
			t = dtype.Bool
		}
		in[i] = arg(t)
		if op.Get(op.Mul).Accepts(0).Has(t) {
			in[i] = b.Step(op.Mul, nil, in[i], arg(t))
		}
	}
	y := b.Step(def.ID, a, in...)
	z := y
	if op.Get(op.Add).Accepts(0).Has(y.View.DType) {
		z = b.Step(op.Add, nil, y, arg(y.View.DType))
	} else {
		z = b.Step(op.Xor, nil, y, arg(y.View.DType))
	}
	b.Results = []program.Ref{z}
	if all {
		b.Results = append(b.Results, y)
	}
	return &b.Program
}

// Every op, between a product and a sum, has the bits of its own kernel.
func TestFusedOpsOnCard(t *testing.T) {
	waitForKernels(t)
	d := newDevice(gpu(t).card, 0, "test")
	r := rand.New(rand.NewPCG(5, 6))
	start, n, fused := time.Now(), 0, 0
	for _, def := range op.All() {
		switch def.Family {
		case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		default:
			continue
		}
		for _, typ := range dtype.All {
			outs := []dtype.DType{typ}
			if def.ID == op.CastTo {
				outs = dtype.All
			}
			for _, out := range outs {
				if !def.KernelTypes().Has(typ) || !d.Fuses(def.ID, typ, out) {
					continue
				}
				p := oneOp(def, typ, out, 4099, n%2 == 0)
				fused += programtest.Compare(t, fmt.Sprintf("%s of %s to %s", def, typ, out), r, p, d)
				n++
			}
		}
	}
	compiled(t)
	t.Logf("%d ops by element type, %d steps fused, in %v", n, fused, time.Since(start))
}

// Random programs, of all types and layouts, have the bits of their ops' own kernels.
// LOCUS_FUSE_SEEDS sets how many.
func TestFusedProgramsOnCard(t *testing.T) {
	waitForKernels(t)
	d := newDevice(gpu(t).card, 0, "test")
	seeds, _ := strconv.Atoi(os.Getenv("LOCUS_FUSE_SEEDS")) // 0 if it is not set
	if seeds == 0 {
		seeds = 60
	}
	start, fused := time.Now(), 0
	for seed := range uint64(seeds) {
		fused += programtest.Check(t, 1000+seed, 3+int(seed)%50, d)
	}
	compiled(t)
	t.Logf("%d programs, %d steps fused, in %v", seeds, fused, time.Since(start))
}

// What runs op by op, because it cannot be compiled, is the same.
func TestFusedSinglyOnCard(t *testing.T) {
	waitForKernels(t)
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	const n = 1000
	view := func(t_ dtype.DType) backend.View {
		b, err := pool.Allocate(n*t_.Size(), func() memory.Label { return memory.Label{} })
		if err != nil {
			t.Fatal(err)
		}
		return backend.View{Block: b, Shape: []int{n}, Strides: []int{1}, DType: t_}
	}
	x, y, z := view(dtype.Float32), view(dtype.Float32), view(dtype.Float32)
	for i, v := range []backend.View{x, y} {
		if err := d.Run(&backend.Call{Op: op.RandNormal, Attrs: op.Random{DType: dtype.Float32, Shape: op.DimsOf(v.Shape), Key: uint64(i)}, Out: v}); err != nil {
			t.Fatal(err)
		}
	}
	c := expression(x, y, z)
	read := func() []byte {
		b := make([]byte, 4*n)
		if err := d.CopyOut(b, z.Block, 0); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := d.Run(c); err != nil {
		t.Fatal(err)
	}
	want := read()
	if err := d.with(pool, op.FusedOps, func() error { return d.runSingly(c, c.Attrs.(*op.Expression)) }); err != nil {
		t.Fatal(err)
	}
	if string(read()) != string(want) {
		t.Error("the results differ")
	}
	compiled(t)
}

// expression is (x+2).exp()·y.
func expression(x, y, out backend.View) *backend.Call {
	f := dtype.Float32
	e := &op.Expression{Inputs: []dtype.DType{f, f, f}, Results: []int{2}, Nodes: []op.Node{
		{Op: op.Add, DType: f, In: []op.Operand{{Index: 0}, {Index: 1}}},
		{Op: op.Exp, DType: f, In: []op.Operand{{Node: true}}},
		{Op: op.Mul, DType: f, In: []op.Operand{{Node: true, Index: 1}, {Index: 2}}},
	}}
	return &backend.Call{Op: op.FusedOps, Attrs: e, Out: out,
		In: []backend.View{x, {Bits: 0x40000000, Shape: x.Shape, Strides: make([]int, len(x.Shape)), DType: f}, y}}
}

// BenchmarkExpressions times (x+2).exp()·y of 64 Mi float32 beside a copy and a sum.
func BenchmarkExpressions(b *testing.B) {
	waitForKernels(b)
	const n = 64 << 20
	for _, name := range []string{"copy", "add", "expression", "bias and gelu"} {
		b.Run(name, func(b *testing.B) {
			x := newBench(b)
			p, q, out := x.random(dtype.Float32, n), x.random(dtype.Float32, n), x.empty(dtype.Float32, n)
			switch name {
			case "copy":
				x.time(&backend.Call{Op: op.Copy, In: []backend.View{p}, Out: out}, 8*n, "GB/s")
			case "add":
				x.time(&backend.Call{Op: op.Add, In: []backend.View{p, q}, Out: out}, 12*n, "GB/s")
			case "expression":
				x.time(expression(p, q, out), 12*n, "GB/s")
			default:
				shape := []int{n / 1024, 1024}
				rows := func(v backend.View) backend.View { v.Shape, v.Strides = shape, []int{1024, 1}; return v }
				bias := rows(x.random(dtype.Float32, 1024))
				bias.Strides = []int{0, 1}
				f := dtype.Float32
				e := &op.Expression{Inputs: []dtype.DType{f, f}, Results: []int{1}, Nodes: []op.Node{
					{Op: op.Add, DType: f, In: []op.Operand{{Index: 0}, {Index: 1}}},
					{Op: op.Gelu, DType: f, In: []op.Operand{{Node: true}}},
				}}
				x.time(&backend.Call{Op: op.FusedOps, Attrs: e, In: []backend.View{rows(p), bias}, Out: rows(out)}, 8*n, "GB/s")
			}
		})
	}
	compiled(b)
}

// TestFusedLoading reports how long it takes from an expression to its kernel; on a
// second run the driver finds what it has compiled on disk.
func TestFusedLoading(t *testing.T) {
	waitForKernels(t)
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	block, err := pool.Allocate(1<<20, func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	v := backend.View{Block: block, Shape: []int{1000}, Strides: []int{1}, DType: dtype.Float32}
	if err := d.Run(&backend.Call{Op: op.RandNormal, Attrs: op.Random{DType: dtype.Float32, Shape: op.DimsOf(v.Shape)}, Out: v}); err != nil {
		t.Fatal(err)
	}
	for _, nodes := range []int{2, 8, 32} {
		e := &op.Expression{Inputs: []dtype.DType{dtype.Float32}, Results: []int{nodes - 1}}
		for i := range nodes {
			o := op.Operand{Node: i > 0, Index: max(i-1, 0)}
			e.Nodes = append(e.Nodes, op.Node{Op: []op.ID{op.Exp, op.Tanh, op.Neg, op.Silu}[i%4], DType: dtype.Float32, In: []op.Operand{o}})
		}
		out := v
		b, err := pool.Allocate(4000, func() memory.Label { return memory.Label{} })
		if err != nil {
			t.Fatal(err)
		}
		out.Block = b
		start := time.Now()
		if err := d.Run(&backend.Call{Op: op.FusedOps, Attrs: e, In: []backend.View{v}, Out: out}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d ops: %v", nodes, time.Since(start))
	}
	if err := d.Synchronize(); err != nil {
		t.Fatal(err)
	}
	compiled(t)
}
