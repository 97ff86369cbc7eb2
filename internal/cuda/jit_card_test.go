//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cuda/kernels"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// freshCard is the first GPU with a cache of its own.
func freshCard(t *testing.T) *rig {
	g := gpu(t)
	drv := *g.card.drv
	drv.cache = &disk.Cache{Dir: t.TempDir(), Limit: cacheLimit}
	c, err := drv.card(int32(g.card.ordinal))
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(c, 0, "test")
	return &rig{t, d, memory.NewPool(d)}
}

// expressions are n different chains of five ops.
func (x *rig) expressions(n, elements int) (calls []*backend.Call) {
	ops := []op.ID{op.Exp, op.Tanh, op.Neg, op.Silu, op.Sigmoid, op.Abs}
	f := dtype.Float32
	in := x.view(f, []int{elements})
	x.fill(in, 1)
	for k := range n {
		e := &op.Expression{Inputs: []dtype.DType{f}, Results: []int{4}}
		for i := range 5 {
			e.Nodes = append(e.Nodes, op.Node{Op: ops[i], DType: f, In: []op.Operand{{Node: i > 0, Index: max(i-1, 0)}}})
		}
		e.Nodes[4].Op = ops[k%6]
		e.Nodes[3].Op = ops[k/6%6]
		calls = append(calls, &backend.Call{Op: op.FusedOps, Attrs: e, In: []backend.View{in}, Out: x.view(f, []int{elements})})
	}
	return calls
}

// The linker takes a kernel of every file that the card can run, and the driver loads
// what it makes.
func TestImagesOfEveryFileOnCard(t *testing.T) {
	x := freshCard(t)
	x.ok(x.d.Synchronize())
	c := x.d.card
	var wg sync.WaitGroup
	for _, file := range kernels.Names() {
		arch := kernels.TargetOf(file).Arch
		if arch == "80" && c.major < 8 || arch == "90a" && c.major != 9 {
			t.Logf("%s is not for this card", file)
			continue
		}
		f, err := ptxFileOf(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for name := range f.kernels {
			all = append(all, name)
		}
		slices.Sort(all)
		wg.Go(func() {
			name := all[len(all)/2]
			text, _, err := source(file, name)
			if err != nil {
				t.Error(err)
				return
			}
			start := time.Now()
			image, err := c.assemble(text)
			if err != nil {
				t.Errorf("%s of %s: %v", name, file, err)
				return
			}
			t.Logf("%s of %s: %d bytes in %v", name, file, len(image), time.Since(start))
			var module uintptr
			if err := x.d.begin(); err != nil {
				t.Error(err)
				return
			}
			defer x.d.end()
			if r := x.d.current().ModuleLoadDataEx(&module, &image[0], 0, nil, nil); r != success {
				t.Errorf("%s of %s: the image is refused: %d", name, file, r)
			}
		})
	}
	wg.Wait()
}

// TestCompilingOnCard reports how long compilation takes one after the other, by several
// threads, and from disk, and what it does to launches meanwhile.
func TestCompilingOnCard(t *testing.T) {
	const n = 24
	waitForKernels(t)
	read := func(x *rig, calls []*backend.Call) (all []byte) {
		for _, c := range calls {
			b := make([]byte, c.Out.Block.Size)
			x.ok(x.d.CopyOut(b, c.Out.Block, 0))
			all = append(all, b...)
		}
		return all
	}
	run := func(x *rig, calls []*backend.Call) time.Duration {
		start := time.Now()
		for _, c := range calls {
			x.ok(x.d.Run(c))
		}
		x.ok(x.d.Synchronize())
		return time.Since(start)
	}
	x := freshCard(t)
	calls := x.expressions(n, 1<<16)
	t.Logf("%d kernels one after the other: %v", n, run(x, calls))
	want := read(x, calls)

	y := freshCard(t)
	y.d.card.drv.cache = x.d.card.drv.cache
	calls = y.expressions(n, 1<<16)
	t.Logf("from disk: %v", run(y, calls))
	if string(read(y, calls)) != string(want) {
		t.Error("kernels from disk compute something else")
	}

	z := freshCard(t)
	calls = z.expressions(n, 1<<16)
	a := z.view(dtype.Float32, []int{1 << 16})
	one := &backend.Call{Op: op.Neg, In: []backend.View{calls[0].In[0]}, Out: a}
	z.ok(z.d.Run(one))
	z.ok(z.d.Synchronize())
	fusedWait = false
	start := time.Now()
	first := run(z, calls)
	if string(read(z, calls)) != string(want) {
		t.Error("op by op something else is computed")
	}
	var slowest time.Duration
	launches := 0
	busy := func() bool {
		if err := z.d.begin(); err != nil {
			t.Fatal(err)
		}
		defer z.d.end()
		return z.d.compiling(calls) > 0
	}
	for busy() {
		began := time.Now()
		z.ok(z.d.Run(one))
		slowest = max(slowest, time.Since(began))
		launches++
		time.Sleep(100 * time.Microsecond)
	}
	t.Logf("in the background: the first pass, op by op, %v; all compiled after %v, meanwhile %d launches, the slowest %v", first, time.Since(start), launches, slowest)
	if string(read(z, calls)) != string(want) {
		t.Error("op by op something else is computed")
	}
	for _, c := range calls {
		z.ok(z.d.Run(c))
	}
	if string(read(z, calls)) != string(want) {
		t.Error("kernels compiled in the background compute something else")
	}
	compiled(t)
}

// Prepare on a card finds the kernels that calls then use.
func TestPrepareOnCard(t *testing.T) {
	x := freshCard(t)
	calls := append(x.mixed(), x.expressions(3, 1000)...)
	for _, c := range calls[:4] {
		for _, v := range c.In {
			x.fill(v, 3)
		}
	}
	x.ok(x.d.Synchronize())
	start := time.Now()
	x.d.Prepare(calls)
	t.Logf("Prepare returns after %v", time.Since(start))
	for _, c := range calls {
		x.ok(x.d.Run(c))
	}
	x.ok(x.d.Synchronize())
	t.Logf("all calls ran after %v", time.Since(start))
	y := freshCard(t)
	calls = append(y.mixed(), y.expressions(3, 1000)...)
	y.ok(y.d.Synchronize())
	start = time.Now()
	for _, c := range calls {
		y.ok(y.d.Run(c))
	}
	y.ok(y.d.Synchronize())
	t.Logf("without it: %v", time.Since(start))
}
