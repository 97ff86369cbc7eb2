//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

const sorted = 1 << 16 // elements, for which sorting needs a workspace of 1.5 MiB

// sortCall needs a workspace and cannot do without.
func (x *rig) sortCall(n int) *backend.Call {
	return &backend.Call{Op: op.ArgSort, Attrs: op.Axis{}, In: []backend.View{x.view(dtype.Float32, []int{n})}, Out: x.view(dtype.Int64, []int{n})}
}

// longSums is a product whose sums several blocks share, in a workspace.
func (x *rig) longSums() *backend.Call {
	return &backend.Call{Op: op.MatMul, In: []backend.View{x.view(dtype.Float32, []int{64, 8192}), x.view(dtype.Float32, []int{8192, 64})}, Out: x.view(dtype.Float32, []int{64, 64})}
}

// sumCall is a reduction whose sums several blocks share, in a workspace.
func (x *rig) sumCall() *backend.Call {
	return &backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: op.AxesOf(0)}, In: []backend.View{x.view(dtype.Float32, []int{1 << 16, 64})}, Out: x.view(dtype.Float32, []int{1, 64})}
}

// hold takes n bytes as a tensor does.
func (x *rig) hold(n int) *memory.Block {
	x.t.Helper()
	b, err := x.pool.Allocate(n, func() memory.Label { return memory.Label{DType: "float32", Shape: "held"} })
	x.ok(err)
	return b
}

// leave leaves the device so many free bytes, by holding all others.
func (x *rig) leave(n int64) *memory.Block {
	x.t.Helper()
	x.pool.Trim()
	_, free := x.d.Memory()
	return x.hold(int((free - n) &^ (1<<20 - 1))) // a size that needs no rounding, or little
}

func fakeRig(t *testing.T) (*fake, *rig) {
	f, devices := openFake(t, 1)
	return f, &rig{t, devices[0], memory.NewPool(devices[0]).Drain(func() { devices[0].Record().Wait() })}
}

// A workspace counts while its op is queued, is cached afterwards, and trimming the
// cache gives it back to the device.
func TestWorkspaceIsCounted(t *testing.T) {
	f, x := fakeRig(t)
	c := x.sortCall(sorted)
	before, used := x.pool.Stats(), f.used
	x.ok(x.d.Run(c))
	after := x.pool.Stats()
	if grown := after.Peak - before.InUse; grown < int64(sortRoom(sorted)) || grown > int64(sortRoom(sorted))*33/32 {
		t.Errorf("the peak grew by %d, for a workspace of %d", grown, sortRoom(sorted))
	}
	if after.InUse != before.InUse || after.Cached-before.Cached < int64(sortRoom(sorted)) || after.Allocations != before.Allocations+1 || after.Frees != before.Frees+1 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	for range 3 {
		x.ok(x.d.Run(c))
	}
	if s := x.pool.Stats(); s.Cached != after.Cached || f.used <= used {
		t.Errorf("the workspace is not used again: %+v", s)
	}
	x.pool.Trim()
	if f.used != used {
		t.Errorf("%d bytes are used after trimming, %d before the op", f.used, used)
	}
}

// Where a workspace does not fit, the cache is trimmed and garbage collected; when that
// does not help the op fails, says for what, and the device goes on.
func TestWorkspaceMakesRoom(t *testing.T) {
	f, x := fakeRig(t)
	f.total = 16 << 20
	c := x.sortCall(sorted)
	x.hold(14 << 20).Free() // cached
	x.ok(x.d.Run(c))
	x.pool.Trim()

	func() { x.hold(14 << 20).Manage() }() // garbage
	x.ok(x.d.Run(c))
	if s := x.pool.Stats(); s.Collections == 0 {
		t.Errorf("nothing was collected: %+v", s)
	}
	x.pool.Trim()

	held := x.hold(14 << 20)
	before := x.pool.Stats()
	err := x.d.Run(c)
	var e *memory.Exhausted
	if !errors.As(err, &e) {
		t.Fatalf("a workspace that does not fit gave %v", err)
	}
	if e.Label != (memory.Label{DType: "workspace", Shape: "of argsort"}) || e.Asked < int64(sortRoom(sorted)) || e.Free >= e.Asked || e.Total != f.total ||
		len(e.Largest) == 0 || e.Largest[0].Label.Shape != "held" || !strings.Contains(e.Largest[0].Site, "room_test.go") {
		t.Errorf("report %+v", e)
	}
	if s := x.pool.Stats(); s.InUse != before.InUse || s.OutOfMemory != before.OutOfMemory+1 {
		t.Errorf("before %+v, after %+v", before, s)
	}
	held.Free()
	x.ok(x.d.Run(c))
	runtime.KeepAlive(held)
}

// A share's cap holds for tensors and workspaces together.
func TestWorkspaceIsUnderTheCap(t *testing.T) {
	f, devices := openFake(t, 1)
	shares, err := devices[0].Split(4<<20, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range shares {
		d.libs.blas, d.libs.dnn = &blas{unavailable: true}, &dnn{unavailable: true}
	}
	x := &rig{t, shares[0], memory.NewPool(shares[0])}
	c := x.sortCall(sorted)
	x.ok(x.d.Run(c))
	held := x.leave(1 << 20)
	if err := x.d.Run(c); !errors.Is(err, memory.ErrExhausted) {
		t.Errorf("beyond the cap: %v", err)
	}
	if f.used > 4<<20 {
		t.Errorf("%d bytes of the card are used", f.used)
	}
	other := &rig{t, shares[1], memory.NewPool(shares[1])}
	other.ok(other.d.Run(other.sortCall(sorted)))
	held.Free()
	x.ok(x.d.Run(c))
	// Reductions that blocks share have counters, for good.
	_, free := x.d.Memory()
	sum := func() error {
		return x.d.Run(&backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: op.AxesOf(0)}, In: []backend.View{{Block: c.In[0].Block, Shape: []int{sorted}, Strides: []int{1}, DType: dtype.Float32}}, Out: c.Out})
	}
	x.ok(sum())
	if _, now := x.d.Memory(); x.d.work.counts == 0 || free-now < 4*maxCounters {
		t.Errorf("the counters are not under the cap: %d bytes free, then %d", free, now)
	}
}

// What can be done without a workspace is done so before it fails.
func TestWithoutWorkspace(t *testing.T) {
	f, x := fakeRig(t)
	c := x.longSums()
	sum := x.sumCall()
	weight := &backend.Call{Op: op.ConvGradWeight, Attrs: op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1},
		In: []backend.View{x.view(dtype.Float32, []int{8, 4, 64, 64}), x.view(dtype.Float32, []int{8, 4, 64, 64})}, Out: x.view(dtype.Float32, []int{4, 4, 1, 1})}
	for _, k := range []struct {
		call   *backend.Call
		kernel string
		axis   int // of the grid, along which blocks share sums
	}{{c, "gemm64_", 2}, {sum, "sum_", 1}, {weight, "conv2d_grad_weight", 2}} {
		for _, room := range []bool{true, false} {
			if !room {
				x.pool.Trim()
				f.total = f.used
			}
			f.launches = nil
			err := x.d.Run(k.call)
			f.total = 1 << 30
			x.ok(err)
			found := false
			for _, l := range f.launches {
				if strings.HasPrefix(l.kernel, k.kernel) && l.kernel != "sum_parts_f32" {
					found = true
					if shared := l.grid[k.axis] > 1; shared != room {
						t.Errorf("%s with room %v is launched with grid %v", l.kernel, room, l.grid)
					}
				}
			}
			if !found {
				t.Errorf("%s was not launched: %v", k.kernel, f.launches)
			}
		}
	}
}

// cuDNN's attention gives way to our own, which needs less.
func TestAttentionWithoutWorkspace(t *testing.T) {
	f, x := fakeRig(t)
	x.d.card.major = 9
	graphs := &fakeGraphs{}
	currentGraphs = graphs
	x.d.libs.dnn = &dnn{lib: fakeDNN(), handle: 1, attentions: map[attentionKey]*attentionPlan{}}
	m := func() backend.View { return x.view(dtype.BFloat16, []int{2, 1024, 128}) }
	c := &backend.Call{Op: op.Attend, Attrs: op.Attention{Scale: 1}, In: []backend.View{m(), m(), m()}, Out: m()}
	f.total = f.used
	for range 2 {
		x.ok(x.d.Run(c))
		f.total = 1 << 30 // it is not asked again
	}
	if graphs.running != 0 || len(f.ran("attention_wgmma")) != 2 {
		t.Errorf("cuDNN ran %d plans, and we launched %v", graphs.running, f.launches)
	}
	if s := x.pool.Stats(); s.OutOfMemory != 1 {
		t.Errorf("%+v", s)
	}
}

// choices of cuDNN's that there is no room for give way to those that need less.
func TestConvolutionsDoWithLess(t *testing.T) {
	t.Setenv("LOCUS_CACHE", t.TempDir()) // nothing was timed before
	fakeConv := purego.NewCallback(func(_, _, _, _, _, _, _, algorithm, _, memory, _, _, _ uintptr) uintptr {
		ranAlgorithms = append(ranAlgorithms, [2]uintptr{algorithm, memory})
		return 0
	})
	f, x := fakeRig(t)
	x.d.libs.dnn = &dnn{lib: &dnnLibrary{forward: fakeConv}, handle: 1, plans: map[convKey]*convPlan{}}
	c := convCall(op.Conv2D, dtype.Float32, op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}, [4]int{2, 4, 8, 8}, [4]int{4, 4, 3, 3})
	for _, v := range []*backend.View{&c.In[0], &c.In[1], &c.Out} {
		*v = x.view(dtype.Float32, v.Shape)
	}
	k := convKey{id: c.Op, attrs: c.Attrs.(op.Conv), dtype: dtype.Float32, aligned: true, a: [4]int(c.In[0].Shape), b: [4]int(c.In[1].Shape), as: [4]int(c.In[0].Strides), bs: [4]int(c.In[1].Strides)}
	for _, timed := range []bool{false, true} {
		for _, room := range []bool{true, false} {
			ranAlgorithms, f.launches = nil, nil
			x.pool.Trim()
			p := &convPlan{choices: []convChoice{{algorithm: 6, memory: 8 << 20}, {algorithm: 7, memory: 4 << 20}, {algorithm: 1}}}
			if timed {
				p.work = 1 << 40 // so much that our own kernels are not tried
			}
			x.d.libs.dnn.plans[k] = p
			want := [2]uintptr{6, 8 << 20}
			if !room {
				f.total, want = f.used, [2]uintptr{1, 0}
			}
			err := x.d.Run(c)
			f.total = 1 << 30
			x.ok(err)
			if len(x.d.libs.dnn.plans) != 1 || len(ranAlgorithms) == 0 || ranAlgorithms[len(ranAlgorithms)-1] != want || len(f.launches) > 0 {
				t.Errorf("timed %v, room %v: ran %v and launched %v, want %v", timed, room, ranAlgorithms, f.launches, want)
			}
		}
	}
}

var ranAlgorithms [][2]uintptr // and their memory

// A driver that finds no memory for itself gets what is cached and what is garbage; then
// the op fails with the driver's words and a report.
func TestDriverOutOfMemory(t *testing.T) {
	for _, call := range []string{"cuModuleLoadDataEx", "cuLaunchKernel"} {
		f, x := fakeRig(t)
		v := x.view(dtype.Float32, []int{100})
		c := &backend.Call{Op: op.Exp, In: []backend.View{v}, Out: v}
		f.tight = map[string]int64{call: 8 << 20}
		x.hold(10 << 20).Free()
		x.ok(x.d.Run(c))
		func() { x.hold(10 << 20).Manage() }()
		x.ok(x.d.Run(c))

		c.Op = op.Log
		held := x.hold(10 << 20)
		err := x.d.Run(c)
		var e *memory.Exhausted
		var driver *Error
		if !errors.As(err, &e) || !errors.As(err, &driver) || driver.Call != call || !strings.Contains(err.Error(), "log_f32") ||
			len(e.Largest) == 0 || e.Largest[0].Label.Shape != "held" {
			t.Errorf("%s: %v", call, err)
		}
		held.Free()
		x.pool.Trim()
		x.ok(x.d.Run(c))
	}
}

// Any call of the driver's that finds no memory says so by the kind of its error.
func TestOutOfMemoryIsItsKind(t *testing.T) {
	for _, call := range []string{"cuMemcpyHtoDAsync", "cuEventCreate", "cuStreamCreate", "cuMemHostAlloc"} {
		f, devices := openFake(t, 1)
		d := devices[0]
		b := block(t, d, 1<<20)
		f.results[call] = resultOutOfMemory
		if err := d.CopyIn(b, make([]byte, 1<<20), nil); call != "cuMemHostAlloc" && !errors.Is(err, op.ErrOutOfMemory) {
			t.Errorf("%s in a large copy: %v", call, err)
		}
		if err := d.CopyIn(b, make([]byte, 100), nil); (call == "cuMemHostAlloc") && !errors.Is(err, op.ErrOutOfMemory) {
			t.Errorf("%s in a small copy: %v", call, err)
		}
	}
	for _, call := range []string{"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemHostAlloc"} { // what a device begins with
		f, devices := openFake(t, 1)
		f.results[call] = resultOutOfMemory
		if _, err := memory.NewPool(devices[0]).Allocate(100, func() memory.Label { return memory.Label{} }); !errors.Is(err, op.ErrOutOfMemory) || !strings.Contains(err.Error(), call) {
			t.Errorf("%s: %v", call, err)
		}
	}
	for r, want := range map[int32]bool{3: true, 7: false} {
		if err := blasError("cublasGemmEx", r); errors.Is(err, op.ErrOutOfMemory) != want {
			t.Errorf("status %d: %v", r, err)
		}
	}
}

// What was made before the driver found no memory is used, or given back.
func TestOutOfMemoryLeavesNothingBehind(t *testing.T) {
	f, devices := openFake(t, 1)
	d := devices[0]
	for _, r := range []Result{resultOutOfMemory, resultOutOfMemory, success} {
		f.results["cuMemHostAlloc"] = r
		if _, err := d.Allocate(100); (err == nil) != (r == success) {
			t.Fatal(r, err)
		}
	}
	if f.made != 1 {
		t.Errorf("%d streams were made", f.made)
	}
	before, locked := len(f.memory), len(mapped.m)
	f.results["cuEventCreate"] = resultOutOfMemory
	for _, s := range []*stage{&d.stages.small, &d.stages.large} {
		if _, err := d.takeSlot(s); !errors.Is(err, op.ErrOutOfMemory) {
			t.Error(err)
		}
	}
	if len(f.memory) != before || len(mapped.m) != locked {
		t.Errorf("%d pieces of page-locked memory are left, and %d mappings", len(f.memory)-before, len(mapped.m)-locked)
	}
}

// fakeBLAS is a cuBLAS that answers with ALLOC_FAILED while more than a limit is used.
var fakeBLAS = sync.OnceValue(func() *blasLibrary {
	answer := func() uintptr {
		current.mu.Lock()
		defer current.mu.Unlock()
		if current.used > current.tight["cuBLAS"] {
			return blasNoMemory
		}
		return 0
	}
	l := &blasLibrary{}
	l.create = purego.NewCallback(func(p uintptr) uintptr { *(*uintptr)(pointer(p)) = 1; return answer() })
	l.setStream = purego.NewCallback(func(_, _ uintptr) uintptr { return 0 })
	l.gemm = purego.NewCallback(func(_ uintptr) uintptr { return answer() })
	return l
})

// cuBLAS gets memory as the driver does. Where there is none it is not started, and a
// product that it has begun fails.
func TestLibraryOutOfMemory(t *testing.T) {
	f, x := fakeRig(t)
	f.tight = map[string]int64{"cuBLAS": 8 << 20}
	start := func() (b *blas) {
		x.ok(x.d.with(x.pool, op.MatMul, func() (err error) {
			b, err = x.d.startBLAS(fakeBLAS())
			return err
		}))
		return b
	}
	x.hold(10 << 20).Free()
	b := start()
	if b.unavailable {
		t.Fatal("cuBLAS was not started, with memory in the cache")
	}
	x.d.libs.blas, x.d.libs.lt = b, &lt{unavailable: true}
	c := x.longSums()
	x.hold(10 << 20).Free()
	x.ok(x.d.Run(c))
	held := x.hold(10 << 20)
	var e *memory.Exhausted
	if err := x.d.Run(c); !errors.As(err, &e) || !errors.Is(err, op.ErrOutOfMemory) || !strings.Contains(err.Error(), "cublasGemmEx") {
		t.Errorf("a product that cuBLAS has no memory for: %v", err)
	}
	if b := start(); !b.unavailable {
		t.Error("cuBLAS was started without memory")
	}
	held.Free()
}

// fakeLt is a cuBLASLt whose algorithms use all the workspace that they may.
var fakeLt = sync.OnceValue(func() *ltLibrary {
	one := func(p uintptr) uintptr { *(*uintptr)(pointer(p)) = 1; return 0 }
	l := &ltLibrary{create: purego.NewCallback(one), newDesc: purego.NewCallback(one), newLayout: purego.NewCallback(one), newPreference: purego.NewCallback(one)}
	nothing := purego.NewCallback(func() uintptr { return 0 })
	l.setDesc, l.freeDesc, l.freeLayout, l.forgo = nothing, nothing, nothing, nothing
	l.setPreference = purego.NewCallback(func(_, attribute, p, _ uintptr) uintptr {
		if attribute == ltWorkspace {
			ltRoom = *(*uint64)(pointer(p))
		}
		return 0
	})
	l.heuristic = purego.NewCallback(func(_, _, _, _, _, _, _, _, result, count uintptr) uintptr {
		(*ltResult)(pointer(result)).workspace = ltRoom
		*(*int32)(pointer(count)) = 1
		return 0
	})
	l.matmul = purego.NewCallback(func(_, _, _, _, _, _, _, _, _, _, _, _, _, work, size, _ uintptr) uintptr {
		ltRan = append(ltRan, [2]uintptr{work, size})
		return 0
	})
	return l
})

var (
	ltRoom uint64
	ltRan  [][2]uintptr // addresses and sizes of workspaces
)

// cuBLASLt does without a workspace where there is no room, and does not ask again.
func TestProductsWithoutWorkspace(t *testing.T) {
	f, x := fakeRig(t)
	x.d.libs.blas, x.d.libs.lt = &blas{}, &lt{lib: fakeLt(), handle: 1, plans: map[ltKey]*ltPlan{}}
	ltRan = nil
	c, full := x.longSums(), x.longSums()
	full.In[0] = x.view(dtype.Float32, []int{72, 8192})
	full.Out = x.view(dtype.Float32, []int{72, 64})
	x.ok(x.d.Run(c))
	if len(ltRan) != 1 || ltRan[0][0] == 0 || ltRan[0][1] != ltWorkspaceMax || x.pool.Stats().Cached < ltWorkspaceMax {
		t.Fatalf("with room: workspaces %v, %+v", ltRan, x.pool.Stats())
	}
	x.pool.Trim()
	f.total = f.used
	x.ok(x.d.Run(full))
	f.total = 1 << 30
	x.ok(x.d.Run(full))
	if len(ltRan) != 3 || ltRan[1] != [2]uintptr{} || ltRan[2] != [2]uintptr{} || x.pool.Stats().OutOfMemory != 1 {
		t.Errorf("without room: workspaces %v, %+v", ltRan, x.pool.Stats())
	}
	x.ok(x.d.Run(c)) // the other one has room again
	if ltRan[3][1] != ltWorkspaceMax {
		t.Errorf("workspaces %v", ltRan)
	}
}

// What an op leaves in its workspace is there for its next kernel, and a copy into
// memory that was a workspace comes after the kernels that used it, in whatever order the
// streams run.
func TestWorkspaceAndCopiesKeepTheirOrder(t *testing.T) {
	for seed := range uint64(30) {
		f, x := fakeRig(t)
		f.lazy = rand.New(rand.NewPCG(seed, 3))
		d := x.d
		d.stages.large.size = 1 << 20
		c := x.sortCall(sorted)
		size := int(sortRoom(sorted))
		begun, step := byte(0), byte(0)
		f.onLaunch = func() func() { // in the goroutine that queues
			r := d.work.rooms[workRoom]
			if r.Size == 0 {
				return func() {}
			}
			work, was, now := view(r.Addr, uintptr(r.Size)), begun+step, begun+step+1
			first := step == 0
			step++
			return func() {
				if !first && bytes.Count(work, []byte{was}) != len(work) {
					t.Errorf("seed %d: somebody wrote to a workspace in use", seed)
				}
				for i := range work {
					work[i] = now
				}
			}
		}
		for range 10 {
			begun, step = begun+16, 0
			x.ok(d.Run(c))
			b := x.hold(size) // the workspace's memory
			data, got := make([]byte, size), make([]byte, size)
			scramble(data, byte(seed)+begun)
			x.ok(d.CopyIn(b, data, nil))
			if seed%2 == 0 {
				x.ok(d.CopyOut(got, b, 0))
				if !bytes.Equal(got, data) {
					t.Fatalf("seed %d: a kernel wrote to a tensor", seed)
				}
			}
			b.Free() // perhaps while it is being copied to
		}
		x.ok(d.Synchronize())
		if s := x.pool.Stats(); s.Cached > 4*int64(size) {
			t.Errorf("memory is not reused: %+v", s)
		}
	}
}

// Goroutines that all need workspaces on a card too small for them wait for nobody for
// ever, and none gets another's.
func TestWorkspacesOfManyGoroutines(t *testing.T) {
	f, x := fakeRig(t)
	calls := make([]*backend.Call, 6)
	for i := range calls {
		calls[i] = x.sortCall(sorted + 4096*i)
	}
	f.total = f.used + 4<<20
	var wg sync.WaitGroup
	for i, c := range calls {
		wg.Go(func() {
			for range 30 {
				func() {
					if b, err := x.pool.Allocate(300<<10+i, func() memory.Label { return memory.Label{} }); err == nil {
						b.Manage()
					}
				}()
				if err := x.d.Run(c); err != nil && !isRefusal(err) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if x.d.work.rooms != [numRooms]room{} {
		t.Errorf("rooms are left: %+v", x.d.work.rooms)
	}
	x.pool.Collect()
	x.pool.Trim()
	x.ok(x.d.Run(calls[0]))
}

// Queueing an op with a workspace leaves nothing to collect either.
func TestWorkspacesMakeNoGarbage(t *testing.T) {
	d, _ := queueing(t)
	x := &rig{t, d, memory.NewPool(d)}
	c := x.sumCall()
	x.ok(d.Run(c))
	before := x.pool.Stats().Allocations
	run := func() {
		if err := d.Run(c); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 || x.pool.Stats().Allocations == before {
		t.Errorf("%v allocations; the pool was asked %d times", n, x.pool.Stats().Allocations-before)
	}
}

func BenchmarkQueueWithWorkspace(b *testing.B) {
	d, _ := queueing(b)
	x := &rig{b, d, memory.NewPool(d)}
	c := x.sumCall()
	for b.Loop() {
		if err := d.Run(c); err != nil {
			b.Fatal(err)
		}
	}
}
