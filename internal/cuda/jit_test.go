//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/op"
)

// cachedRig is a fake with a cache of compiled kernels in a folder.
func cachedRig(t *testing.T, dir string) (*fake, *rig) {
	f, x := fakeRig(t)
	x.d.card.drv.cache = &disk.Cache{Dir: dir, Limit: 1 << 20}
	return f, x
}

func names(f *fake) (l []string) {
	for _, k := range seen(f) {
		l = append(l, k.kernel)
	}
	return l
}

// settled waits until nothing is compiled any more.
func (x *rig) settled() {
	x.t.Helper()
	c := x.d.card
	if !eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, j := range c.jobs {
			if !j.ready() {
				return false
			}
		}
		return true
	}) {
		x.t.Fatal("the driver compiles for ever")
	}
}

// A second process finds what the first has compiled, unless the driver or the card is
// another one; what is spoiled is compiled again.
func TestCompiledKernelsAreKept(t *testing.T) {
	dir := t.TempDir()
	f, x := cachedRig(t, dir)
	calls := x.mixed()
	for _, c := range calls {
		x.ok(x.d.Run(c))
	}
	want, compiled := names(f), f.linked
	if compiled == 0 || len(want) < compiled {
		t.Fatalf("%d kernels are compiled for %d launches", compiled, len(want))
	}
	again := func(what string, change func(f *fake, x *rig), most int) {
		t.Helper()
		f, x := cachedRig(t, dir)
		change(f, x)
		for _, c := range x.mixed() {
			x.ok(x.d.Run(c))
		}
		if got := names(f); !slices.Equal(got, want) || f.linked != most {
			t.Errorf("%s: %d kernels are compiled, want %d; launched %v", what, f.linked, most, got)
		}
	}
	again("the same", func(*fake, *rig) {}, 0)
	again("another driver", func(_ *fake, x *rig) { x.d.card.drv.name = "another" }, compiled)
	again("another card", func(_ *fake, x *rig) { x.d.card.minor = 9 }, compiled)
	again("without a cache", func(_ *fake, x *rig) { x.d.card.drv.cache = nil }, 0) // the text is loaded
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 3*compiled {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if err := os.WriteFile(name, []byte("spoiled"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again("spoiled files", func(*fake, *rig) {}, compiled)
	again("mended files", func(*fake, *rig) {}, 0)
}

// What the linker refuses, or the image of which the driver does not load, is loaded as
// text, as it was without a cache.
func TestRefusedImages(t *testing.T) {
	f, x := cachedRig(t, t.TempDir())
	f.results["cuLinkComplete"] = 218
	for _, c := range x.mixed() {
		x.ok(x.d.Run(c))
	}
	if len(names(f)) == 0 {
		t.Error("nothing is launched")
	}
	f, x = cachedRig(t, t.TempDir())
	load, refused := x.d.card.drv.ModuleLoadDataEx, 0
	x.d.card.drv.ModuleLoadDataEx = func(m *uintptr, image *byte, n uint32, opts *int32, vals *uintptr) Result {
		if n == 0 { // no log is asked for: an image
			refused++
			return 200
		}
		return load(m, image, n, opts, vals)
	}
	for _, c := range x.mixed() {
		x.ok(x.d.Run(c))
	}
	if len(names(f)) == 0 || refused == 0 {
		t.Errorf("%d images are refused", refused)
	}
}

// While the driver compiles, an expression runs op by op, and is not recorded; then its
// kernel runs, and a recording has it.
func TestExpressionsRunWhileTheyAreCompiled(t *testing.T) {
	f, x := fakeRig(t)
	release := make(chan struct{})
	f.onLink = func() { <-release }
	v := func() backend.View { return x.view(dtype.Float32, []int{1000}) }
	calls := []*backend.Call{expression(v(), v(), v()), expression(v(), v(), v())}
	for range 2 {
		for _, c := range calls {
			x.ok(x.d.Run(c))
		}
		got := names(f)
		if want := []string{"add_f32", "exp_f32", "mul_f32", "add_f32", "exp_f32", "mul_f32"}; !slices.Equal(got, want) {
			t.Fatalf("launched %v, want %v", got, want)
		}
		if _, err := x.d.RecordCalls(calls, nil); !errors.Is(err, backend.ErrLater) {
			t.Fatalf("recorded before it is compiled: %v", err)
		}
	}
	close(release)
	x.settled()
	for _, c := range calls {
		x.ok(x.d.Run(c))
	}
	got := names(f)
	if len(got) != 2 || !strings.HasPrefix(got[0], "fused") || got[0] != got[1] || f.linked != 1 {
		t.Errorf("launched %v, compiled %d", got, f.linked)
	}
	x.ok(x.record(calls).Replay())
	if again := names(f); !slices.Equal(again, got) {
		t.Errorf("the replay launches %v, want %v", again, got)
	}
}

// A kernel that is ready when calls are recorded, but not loaded, is loaded for it.
func TestRecordLoadsWhatIsCompiled(t *testing.T) {
	f, x := fakeRig(t)
	v := func() backend.View { return x.view(dtype.Float32, []int{1000}) }
	calls := []*backend.Call{expression(v(), v(), v())}
	release := make(chan struct{})
	f.onLink = func() { <-release }
	x.ok(x.d.Run(calls[0]))
	close(release)
	x.settled()
	seen(f)
	x.ok(x.record(calls).Replay())
	if got := names(f); len(got) != 1 || !strings.HasPrefix(got[0], "fused") {
		t.Errorf("the replay launches %v", got)
	}
}

// Where there is no memory for the values between the ops, the expression waits for its
// kernel instead; so it does where they are large.
func TestExpressionsWaitWithoutRoom(t *testing.T) {
	f, x := fakeRig(t)
	v := func(n int) backend.View { return x.view(dtype.Float32, []int{n}) }
	c := expression(v(1000), v(1000), v(1000))
	x.pool.Trim()
	f.total = f.used
	x.ok(x.d.Run(c))
	if got := names(f); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "fused") {
		t.Errorf("launched %v", got)
	}
	f, x = fakeRig(t)
	defer func(n int) { maxSingly = n }(maxSingly)
	maxSingly = 1 << 20
	n := maxSingly / 4 / 2
	half := expression(v(n), v(n), v(n))
	if _, size := singly(half.Attrs.(*op.Expression), n); size != maxSingly {
		t.Fatalf("the values take %d bytes", size)
	}
	release := make(chan struct{})
	f.onLink = func() { <-release }
	x.ok(x.d.Run(half))
	if got := names(f); len(got) != 3 {
		t.Errorf("launched %v", got)
	}
	close(release)
	e := half.Attrs.(*op.Expression)
	e = &op.Expression{Inputs: e.Inputs, Nodes: slices.Clone(e.Nodes), Results: e.Results}
	e.Nodes[1].Op = op.Log
	large := expression(v(n+64), v(n+64), v(n+64))
	large.Attrs = e
	x.ok(x.d.Run(large))
	if got := names(f); len(got) != 1 || !strings.HasPrefix(got[0], "fused") {
		t.Errorf("launched %v", got)
	}
}

// An expression that cannot be compiled runs op by op for good, and is recorded so.
func TestExpressionsThatCannotBeCompiled(t *testing.T) {
	f, x := fakeRig(t)
	f.results["cuLinkComplete"] = 218
	load := x.d.card.drv.ModuleLoadDataEx
	x.d.card.drv.ModuleLoadDataEx = func(m *uintptr, image *byte, n uint32, opts *int32, vals *uintptr) Result {
		if r := load(m, image, n, opts, vals); r != success || strings.HasPrefix(f.kernels[*m], "fused") {
			return 218
		}
		return success
	}
	v := func() backend.View { return x.view(dtype.Float32, []int{1000}) }
	calls := []*backend.Call{expression(v(), v(), v())}
	x.ok(x.d.Run(calls[0]))
	x.settled()
	x.ok(x.d.Run(calls[0]))
	seen(f)
	x.ok(x.record(calls).Replay())
	if got := names(f); len(got) != 3 {
		t.Errorf("the replay launches %v", got)
	}
	fuseErrors.Lock()
	defer fuseErrors.Unlock()
	if fuseErrors.last == nil {
		t.Error("nobody learns of it")
	}
	fuseErrors.last = nil
}

// Prepare compiles the kernels of calls in the background, launches and allocates
// nothing, and leaves no trace in what runs later.
func TestPrepare(t *testing.T) {
	for _, cached := range []bool{false, true} {
		f, x := fakeRig(t)
		if cached {
			f, x = cachedRig(t, t.TempDir())
		}
		v := func() backend.View { return x.view(dtype.Float32, []int{1000}) }
		calls := append(x.mixed(), expression(v(), v(), v()), x.sortCall(sorted))
		x.ok(x.d.Synchronize())
		used, loaded := f.used, len(f.kernels)
		x.d.Prepare(calls)
		x.settled()
		if got := names(f); len(got) != 0 || f.used != used || len(f.kernels) != loaded {
			t.Errorf("it launches %v, takes %d bytes, loads %d kernels", got, f.used-used, len(f.kernels)-loaded)
		}
		prepared := f.linked
		for _, c := range calls {
			x.ok(x.d.Run(c))
		}
		got := names(f)
		f2, y := fakeRig(t) // the same, unprepared
		fusedWait = true
		more := append(y.mixed(), expression(y.view(dtype.Float32, []int{1000}), y.view(dtype.Float32, []int{1000}), y.view(dtype.Float32, []int{1000})), y.sortCall(sorted))
		for _, c := range more {
			y.ok(y.d.Run(c))
		}
		fusedWait = false
		if want := names(f2); !slices.Equal(got, want) {
			t.Errorf("launched %v, want %v", got, want)
		}
		slices.Sort(got)
		got = slices.Compact(got)
		if more := f.linked - prepared; prepared < len(got) || more > 1 { // memory's filling is no call's
			t.Errorf("%d kernels were prepared, %d compiled later, of %d", prepared, more, len(got))
		}
	}
}

// Where values between ops lie, those that are needed at the same time lie apart.
func TestSingly(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	types := []dtype.DType{dtype.Bool, dtype.Float16, dtype.Float32, dtype.Float64}
	for range 300 {
		n := 1 + r.IntN(1000)
		e := &op.Expression{Inputs: []dtype.DType{dtype.Float32}}
		for i := range 1 + r.IntN(12) {
			node := op.Node{Op: op.Add, DType: types[r.IntN(len(types))]}
			for range 1 + r.IntN(2) {
				if i > 0 && r.IntN(5) > 0 {
					node.In = append(node.In, op.Operand{Node: true, Index: r.IntN(i)})
				} else {
					node.In = append(node.In, op.Operand{})
				}
			}
			e.Nodes = append(e.Nodes, node)
			if r.IntN(4) == 0 {
				e.Results = append(e.Results, i)
			}
		}
		at, size := singly(e, n)
		owner := make([]int, size) // by byte: 1 + the value that lies there
		for i, node := range e.Nodes {
			for _, o := range node.In {
				if !o.Node || slices.Contains(e.Results, o.Index) {
					continue
				}
				for b := range n * e.Nodes[o.Index].DType.Size() {
					if owner[at[o.Index]+b] != 1+o.Index {
						t.Fatalf("node %d reads value %d, and byte %d is of %d: %+v", i, o.Index, b, owner[at[o.Index]+b]-1, e)
					}
				}
			}
			if !slices.Contains(e.Results, i) {
				for b := range n * node.DType.Size() {
					owner[at[i]+b] = 1 + i
				}
			}
		}
	}
	chain := &op.Expression{Inputs: []dtype.DType{dtype.Float32}}
	for i := range 30 {
		chain.Nodes = append(chain.Nodes, op.Node{Op: op.Exp, DType: dtype.Float32, In: []op.Operand{{Node: i > 0, Index: max(i-1, 0)}}})
	}
	chain.Results = []int{29}
	if _, size := singly(chain, 64); size != 2*256 {
		t.Errorf("a chain takes %d bytes, want those of two values", size)
	}
}

// The folder of compiled kernels is the user's, or what the variable says.
func TestKernelCacheFolder(t *testing.T) {
	t.Setenv("LOCUS_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/somewhere")
	for value, want := range map[string]string{"": "/somewhere/locus/kernels", "/elsewhere": "/elsewhere"} {
		if c := kernelCache(value); c == nil || c.Dir != want {
			t.Errorf("%q: %+v, want %s", value, c, want)
		}
	}
	for _, value := range []string{"off", "0"} {
		if c := kernelCache(value); c != nil {
			t.Errorf("%q: %+v", value, c)
		}
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if c := kernelCache(""); c != nil {
		t.Errorf("without a home: %+v", c)
	}
}

// A card on which nothing has run yet gets its context before anything is compiled.
func TestCompilingStartsTheCard(t *testing.T) {
	f, x := fakeRig(t)
	if x.d.card.ctx != 0 {
		t.Fatal("the card has been started")
	}
	text, _, err := source("unary", "neg_f32")
	if err != nil {
		t.Fatal(err)
	}
	if image, err := x.d.card.assemble(text); err != nil || len(image) == 0 || x.d.card.ctx == 0 || f.linked != 1 {
		t.Errorf("%d bytes, %v; the context is %d", len(image), err, x.d.card.ctx)
	}
}
