//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// randomCall draws n numbers.
func (x *rig) randomCall(n int, key uint64) *backend.Call {
	return &backend.Call{Op: op.RandUniform, Attrs: op.Random{DType: dtype.Float32, Shape: op.DimsOf([]int{n}), Key: key}, Out: x.view(dtype.Float32, []int{n})}
}

// adamCall is a step of Adam in place, of so many parameters.
func (x *rig) adamCall(parameters int, rate float64) *backend.Call {
	c := &backend.Call{Op: op.UpdateAll, Attrs: op.Update{Rule: op.AdamRule, Rate: rate, Keep: 0.99, Momentum: 0.9, Fresh: 0.1, Beta: 0.999, Root: 1.5, Eps: 1e-8}}
	for i := range parameters {
		n := 1 + 37*i%1000
		p, g, m, v := x.view(dtype.Float32, []int{n}), x.view(dtype.Float32, []int{n}), x.view(dtype.Float32, []int{n}), x.view(dtype.Float32, []int{n})
		c.In = append(c.In, p, g, m, v)
		if i == 0 {
			c.Out, c.More = p, []backend.View{m, v}
		} else {
			c.More = append(c.More, p, m, v)
		}
	}
	return c
}

// with returns the call with other attributes.
func with(c *backend.Call, a op.Attrs) *backend.Call {
	changed := *c
	changed.Attrs = a
	return &changed
}

// record records calls, of which late may be changed, and closes at the test's end.
func (x *rig) record(calls []*backend.Call, late ...int) backend.Recording {
	x.t.Helper()
	marks := make([]bool, len(calls))
	for _, i := range late {
		marks[i] = true
	}
	r, err := x.d.RecordCalls(calls, marks)
	x.ok(err)
	x.t.Cleanup(func() { x.close(r) })
	return r
}

// close closes a recording and waits until nothing is left of it: the fake driver may go
// afterwards.
func (x *rig) close(r backend.Recording) {
	x.t.Helper()
	r.Close()
	if !eventually(func() bool { x.d.mu.Lock(); defer x.d.mu.Unlock(); return !x.d.flights.awaited }) {
		x.t.Error("a closed recording is still there")
	}
}

// seen returns what was launched since the last time.
func seen(f *fake) []launched {
	l := f.launches
	f.launches = nil
	return l
}

// expected is what calls launch, and which bits of the parameters are theirs: behind
// and between them lies what was there before.
type expected struct {
	launches []launched
	mask     [][paramWords]uint64
}

// run runs the calls and returns what they launched.
func (x *rig) run(f *fake, calls []*backend.Call) (e expected) {
	x.t.Helper()
	seen(f)
	var by [2][]launched
	for i, before := range []uint64{0, ^uint64(0)} {
		for _, c := range calls {
			for k := range x.d.params {
				x.d.params[k] = before
			}
			x.ok(x.d.Run(c))
		}
		by[i] = seen(f)
	}
	e.launches = by[0]
	for i := range by[0] {
		var mask [paramWords]uint64
		for k := range mask {
			mask[k] = ^(by[0][i].params[k] ^ by[1][i].params[k])
		}
		e.mask = append(e.mask, mask)
	}
	return e
}

// same reports whether these launches are those that are expected.
func (e expected) same(got []launched) bool {
	if len(got) != len(e.launches) {
		return false
	}
	for i, want := range e.launches {
		g := got[i]
		for k, m := range e.mask[i] {
			if (g.params[k]^want.params[k])&m != 0 {
				return false
			}
		}
		g.params = want.params
		if g != want {
			return false
		}
	}
	return true
}

// mixed are calls of several families that need no working memory.
func (x *rig) mixed() []*backend.Call {
	a, b := x.view(dtype.Float32, []int{20, 30}), x.view(dtype.Float32, []int{30, 20})
	turned := backend.View{Block: b.Block, Shape: []int{20, 30}, Strides: []int{1, 20}, DType: dtype.Float32}
	return []*backend.Call{
		{Op: op.Add, In: []backend.View{a, turned}, Out: x.view(dtype.Float32, []int{20, 30})},
		{Op: op.MatMul, In: []backend.View{a, b}, Out: x.view(dtype.Float32, []int{20, 20})},
		{Op: op.Sum, Attrs: op.Reduce{Axes: op.AxesOf(1)}, In: []backend.View{a}, Out: x.view(dtype.Float32, []int{20, 1})},
		{Op: op.Softmax, Attrs: op.Axis{Axis: 1}, In: []backend.View{a}, Out: x.view(dtype.Float32, []int{20, 30})},
		{Op: op.Exp, In: []backend.View{x.view(dtype.Float32, []int{0})}, Out: x.view(dtype.Float32, []int{0})},
		x.randomCall(1000, 7),
		x.adamCall(300, 1e-3),
	}
}

// A replay launches what the calls launch, again and again, and recording launches nothing.
func TestReplayIsRun(t *testing.T) {
	f, x := fakeRig(t)
	calls := x.mixed()
	want := x.run(f, calls)
	if n := len(want.launches); n < 9 {
		t.Fatalf("only %d launches", n)
	}
	before := x.d.Launches()
	r := x.record(calls)
	if l := seen(f); len(l) != 0 || x.d.Launches() != before {
		t.Errorf("recording has launched %d kernels", len(l))
	}
	for range 3 {
		x.ok(r.Replay())
		if got := seen(f); !want.same(got) {
			t.Errorf("the replay launches something else: %d of %d", len(got), len(want.launches))
		}
	}
	if got := x.d.Launches().Sub(before); got != (Launches{Graphs: 3}) || got.Total() != 3 {
		t.Errorf("counted %+v", got)
	}
	x.ok(x.d.Run(calls[0]))
	want.launches = want.launches[:1]
	if !want.same(seen(f)) {
		t.Error("an op behind it is queued differently")
	}
	if len(f.graphs.graphs) != 0 {
		t.Error("a graph is kept that nothing refers to")
	}
}

// Late attributes reach the launches of the replays to come, in kernels of one launch
// and of several.
func TestLateCalls(t *testing.T) {
	f, x := fakeRig(t)
	calls := x.mixed()
	random, adam := len(calls)-2, len(calls)-1
	r := x.record(calls, random, adam)
	for step := range 3 {
		key := op.Random{DType: dtype.Float32, Shape: op.DimsOf([]int{1000}), Key: uint64(100 + step)}
		rate := calls[adam].Attrs.(op.Update)
		rate.Rate, rate.Root = 1e-3/float64(1+step), 1.5+float64(step)
		if step == 1 {
			calls[random] = with(calls[random], key)
			x.ok(r.Set(random, calls[random]))
		} else {
			calls[random], calls[adam] = with(calls[random], key), with(calls[adam], rate)
			x.ok(r.Set(random, calls[random]))
			x.ok(r.Set(adam, calls[adam]))
		}
		if l := seen(f); len(l) != 0 {
			t.Fatalf("Set has launched %d kernels", len(l))
		}
		want := x.run(f, calls)
		x.ok(r.Replay())
		if !want.same(seen(f)) {
			t.Errorf("step %d: the replay launches something else", step)
		}
	}
	if err := r.Set(0, calls[0]); err == nil || !strings.Contains(err.Error(), "call 0") {
		t.Errorf("a call that is not late: %v", err)
	}
	if err := r.Set(99, calls[0]); err == nil {
		t.Error("a call that is not there can be changed")
	}
	x.ok(r.Replay())
	seen(f)
}

// What does not fit the recording breaks it, with the reason.
func TestLateCallsThatDoNotFit(t *testing.T) {
	_, x := fakeRig(t)
	sort, adam := x.sortCall(sorted), x.adamCall(300, 1e-3)
	larger := x.sortCall(2 * sorted)
	pad := &backend.Call{Op: op.Padded, Attrs: op.Pad{Low: op.DimsOf([]int{1}), High: op.DimsOf([]int{1}), Interior: op.DimsOf([]int{0})}, In: []backend.View{x.view(dtype.Float32, []int{10})}, Out: x.view(dtype.Float32, []int{12})}
	empty := *pad // there is nothing to move
	empty.In = []backend.View{x.view(dtype.Float32, []int{0})}
	u := adam.Attrs.(op.Update)
	u.Rule, u.Centered, u.Momentum = op.RMSPropRule, true, 0
	for _, k := range []struct {
		word     string
		was, now *backend.Call
	}{{"launches", pad, &empty}, {"working memory", sort, larger}, {"kernel", adam, with(adam, u)}} {
		r := x.record([]*backend.Call{k.was}, 0)
		err := r.Set(0, k.now)
		if err == nil || !strings.Contains(err.Error(), k.word) || !strings.Contains(err.Error(), k.was.Op.String()) {
			t.Errorf("%s: %v", k.word, err)
		}
		if again := r.Replay(); again != err {
			t.Errorf("%s: then a replay gives %v", k.word, again)
		}
		r.Close()
	}
}

// What is missing is made between two attempts, so that calls need not have run.
func TestRecordMakesWhatIsMissing(t *testing.T) {
	f, x := fakeRig(t)
	calls := append(x.mixed(), x.sumCall(), x.sortCall(sorted), x.longSums())
	r := x.record(calls)
	if l := seen(f); len(l) != 1 || l[0].kernel != "full_u32" {
		t.Errorf("recording has launched more than what clears the counters: %d", len(l))
	}
	x.ok(r.Replay())
	got := seen(f)
	for _, c := range calls {
		x.ok(x.d.Run(c))
	}
	want := seen(f)
	if len(got) != len(want) {
		t.Fatalf("%d launches, want %d", len(got), len(want))
	}
	for i := range got { // working memory lies elsewhere
		if got[i].kernel != want[i].kernel || got[i].grid != want[i].grid {
			t.Errorf("launch %d: %s %v, want %s %v", i, got[i].kernel, got[i].grid, want[i].kernel, want[i].grid)
		}
	}
}

// Working memory of a recording is counted until it is closed, and recordings share it.
func TestRecordingsShareRooms(t *testing.T) {
	f, x := fakeRig(t)
	small, large := x.sortCall(sorted/4), x.sortCall(sorted)
	x.ok(x.d.Run(x.sumCall())) // the counters
	x.pool.Trim()
	before, used := x.pool.Stats(), f.used
	x.ok(x.d.Run(small)) // so that something is cached, and the recording begins with that
	x.hold(sortRoom(sorted)).Free()
	seen(f)
	a := x.record([]*backend.Call{small, large, small})
	one := x.pool.Stats().InUse - before.InUse
	if one < int64(sortRoom(sorted)) || one > int64(sortRoom(sorted))*33/32 {
		t.Errorf("%d bytes are held, for a workspace of %d", one, sortRoom(sorted))
	}
	// Every launch of the recording is where the memory is now.
	x.ok(a.Replay())
	first := map[string]uint64{}
	for _, l := range seen(f) {
		if l.kernel == "sort_keys_f32" {
			if at := first[l.kernel]; at != 0 && at != l.params[1] {
				t.Error("one recording has two workspaces")
			}
			first[l.kernel] = l.params[1]
		}
	}
	b := x.record([]*backend.Call{small})
	if both := x.pool.Stats().InUse - before.InUse; both != one {
		t.Errorf("a second recording takes %d bytes more", both-one)
	}
	a.Close()
	a.Close()
	if left := x.pool.Stats().InUse - before.InUse; left != one {
		t.Errorf("%d bytes are left of %d while another recording has them", left, one)
	}
	if err := a.Replay(); !errors.Is(err, errClosed) {
		t.Errorf("a closed recording replays: %v", err)
	}
	if err := a.Set(0, small); !errors.Is(err, errClosed) {
		t.Errorf("a closed recording changes: %v", err)
	}
	b.Close()
	x.pool.Trim()
	if s := x.pool.Stats(); s.InUse != before.InUse || f.used != used || len(x.d.rec.held) != 0 {
		t.Errorf("closed: %+v, before %+v; %d bytes of the card, before %d", s, before, f.used, used)
	}
}

// Nothing is left of many recordings.
func TestRecordingsLeaveNothing(t *testing.T) {
	f, x := fakeRig(t)
	calls := append(x.mixed(), x.sortCall(sorted), x.sumCall())
	for _, c := range calls {
		x.ok(x.d.Run(c))
	}
	before, used := x.pool.Stats(), f.used
	streams := f.made
	for i := range 200 {
		r := x.record(calls, len(calls)-3)
		for range i % 3 {
			x.ok(r.Replay())
		}
		r.Close()
	}
	if !eventually(func() bool { return f.graphs.left() == 0 }) {
		t.Errorf("%d graphs are left", f.graphs.left())
	}
	after := x.pool.Stats()
	if after.InUse != before.InUse || f.used != used || f.made > streams+1 {
		t.Errorf("before %+v, after %+v; %d streams made", before, after, f.made-streams)
	}
}

// A recording without room for its working memory is refused, and the device is as it was.
func TestRecordWithoutRoom(t *testing.T) {
	f, x := fakeRig(t)
	c := x.sortCall(sorted)
	x.ok(x.d.Run(c))
	x.pool.Trim()
	f.total = f.used
	before := x.pool.Stats().InUse
	_, err := x.d.RecordCalls([]*backend.Call{c}, nil)
	if !errors.Is(err, memory.ErrExhausted) || !strings.Contains(err.Error(), "argsort") {
		t.Errorf("without room: %v", err)
	}
	if s := x.pool.Stats(); s.InUse != before || len(x.d.rec.held) != 0 || f.graphs.left() != 0 {
		t.Errorf("%+v, %d rooms, %d graphs", s, len(x.d.rec.held), f.graphs.left())
	}
	f.total = 1 << 30
	x.ok(x.d.Run(c))
	x.ok(x.record([]*backend.Call{c}).Replay())
}

// A driver that finds no memory for a graph gets what is cached and what is garbage.
func TestRecordRelievesTheDriver(t *testing.T) {
	for _, call := range []string{"cuGraphInstantiateWithFlags", "cuGraphUpload", "cuModuleLoadDataEx"} {
		f, x := fakeRig(t)
		calls := x.mixed()
		f.tight = map[string]int64{call: 8 << 20}
		x.hold(10 << 20).Free()
		x.ok(x.record(calls).Replay())
		func() { x.hold(10 << 20).Manage() }()
		x.ok(x.record(calls).Replay())
		held := x.hold(10 << 20)
		calls = append(calls, &backend.Call{Op: op.Log, In: calls[0].In[:1], Out: calls[0].Out})
		if _, err := x.d.RecordCalls(calls, nil); !errors.Is(err, op.ErrOutOfMemory) || !strings.Contains(err.Error(), call) {
			t.Errorf("%s finds no memory: %v", call, err)
		}
		held.Free()
		x.pool.Trim()
		x.ok(x.record(calls).Replay())
	}
}

// Whatever fails in a capture ends it, names the call, and leaves the device in order.
func TestRecordFails(t *testing.T) {
	for _, call := range []string{"cuStreamBeginCapture", "cuLaunchKernel", "cuStreamGetCaptureInfo", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphUpload"} {
		f, x := fakeRig(t)
		calls := x.mixed()
		for _, c := range calls {
			x.ok(x.d.Run(c))
		}
		seen(f)
		f.results[call] = 900
		r, err := x.d.RecordCalls(calls, []bool{5: true, 6: false})
		if err == nil || r != nil || !strings.Contains(err.Error(), call) || !strings.Contains(err.Error(), "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED") {
			t.Errorf("%s fails: %v", call, err)
		}
		if call == "cuLaunchKernel" && !strings.Contains(err.Error(), "call 0 of 7, add") {
			t.Errorf("%v does not name the call", err)
		}
		delete(f.results, call)
		if f.graphs.left() != 0 || len(f.graphs.capturing) != 0 {
			t.Errorf("%s fails: %d graphs and %d captures are left", call, f.graphs.left(), len(f.graphs.capturing))
		}
		x.ok(x.d.Run(calls[0]))
		if l := seen(f); len(l) != 1 {
			t.Errorf("%s fails: the next op takes %d launches", call, len(l))
		}
		x.ok(x.record(calls).Replay())
	}
}

// Calls that do nothing are recorded as nothing.
func TestRecordNothing(t *testing.T) {
	f, x := fakeRig(t)
	none := x.view(dtype.Float32, []int{0})
	c := &backend.Call{Op: op.Exp, In: []backend.View{none}, Out: none}
	for _, calls := range [][]*backend.Call{nil, {c, c}} {
		r := x.record(calls)
		x.ok(r.Replay())
		if f.graphs.left() != 0 || x.d.Launches() != (Launches{}) {
			t.Errorf("%d graphs of %d calls, %+v", f.graphs.left(), len(calls), x.d.Launches())
		}
		r.Close()
		if err := r.Replay(); !errors.Is(err, errClosed) {
			t.Errorf("closed: %v", err)
		}
	}
	r := x.record([]*backend.Call{c}, 0)
	x.ok(r.Set(0, c))
	x.ok(r.Replay())
}

// Devices that do not record say so.
func TestRecordUnsupported(t *testing.T) {
	_, x := fakeRig(t)
	calls := []*backend.Call{x.randomCall(10, 1)}
	blocking = true
	_, err := x.d.RecordCalls(calls, nil)
	blocking = false
	if !errors.Is(err, op.ErrUnsupported) || !strings.Contains(err.Error(), "LOCUS_CUDA_BLOCKING") {
		t.Errorf("blocking: %v", err)
	}
	if _, err := x.d.RecordCalls(calls, []bool{true, true}); err == nil {
		t.Error("too many marks are taken")
	}
	x.d.card.drv.graphs.launch = 0
	if _, err := x.d.RecordCalls(calls, nil); !errors.Is(err, op.ErrUnsupported) || !strings.Contains(err.Error(), "11.4") {
		t.Errorf("old driver: %v", err)
	}
}

// A device that is lost in a replay says which one it was.
func TestLostInReplay(t *testing.T) {
	f, x := fakeRig(t)
	calls := x.mixed()[:3]
	r := x.record(calls, 0)
	x.ok(r.Replay())
	f.results["cuStreamSynchronize"] = 700
	err := x.d.Synchronize()
	var async *backend.AsyncError
	if !errors.As(err, &async) || async.Op != op.Sum || !strings.Contains(err.Error(), "a replay of 3 calls") || !errors.Is(err, op.ErrDeviceLost) {
		t.Errorf("lost in a replay: %v", err)
	}
	if err := r.Replay(); !errors.Is(err, op.ErrDeviceLost) {
		t.Errorf("then a replay gives %v", err)
	}
	if err := r.Set(0, calls[0]); !errors.Is(err, op.ErrDeviceLost) {
		t.Errorf("then a change gives %v", err)
	}
	if _, err := x.d.RecordCalls(calls, nil); !errors.Is(err, op.ErrDeviceLost) {
		t.Errorf("then recording gives %v", err)
	}
	r.Close()
}

// A replay waits for what is still being copied to its operands, and for nothing else.
func TestReplayWaitsForCopies(t *testing.T) {
	const n = 1 << 20
	for seed := range uint64(20) {
		f, x := fakeRig(t)
		in, out, other := x.view(dtype.Uint8, []int{n}), x.view(dtype.Uint8, []int{n}), x.view(dtype.Uint8, []int{n})
		c := &backend.Call{Op: op.Copy, In: []backend.View{in}, Out: out}
		r := x.record([]*backend.Call{c})
		f.lazy = rand.New(rand.NewPCG(seed, 2))
		f.onLaunch = func() func() { return func() { copy(view(out.Block.Addr, n), view(in.Block.Addr, n)) } }
		for turn := range byte(3) {
			data := make([]byte, n)
			for i := range data {
				data[i] = turn + 1
			}
			x.ok(x.d.CopyIn(in.Block, data, nil))
			x.ok(x.d.CopyIn(other.Block, data, nil))
			x.ok(r.Replay())
			if x.d.copies.last == nil {
				t.Fatal("the replay waits for a copy that it does not use")
			}
			got := make([]byte, n)
			x.ok(x.d.CopyOut(got, out.Block, 0))
			if !slices.Equal(got, data) {
				t.Fatalf("seed %d, turn %d: the replay was before the copy", seed, turn)
			}
		}
		x.ok(x.d.Synchronize())
		x.close(r)
		f.lazy = nil
	}
}

// What counts is the memory that a recording uses, not the block that it was recorded with:
// the next step's batch may lie in the same place and be another's.
func TestReplayWaitsForOtherBlocks(t *testing.T) {
	const n = 1 << 20
	for seed := range uint64(20) {
		f, x := fakeRig(t)
		arena := x.hold(4 * n)
		piece := func(at int) *memory.Block {
			return &memory.Block{Region: memory.Region{Addr: arena.Addr + uintptr(at), Size: n}}
		}
		out := x.view(dtype.Uint8, []int{n})
		v := backend.View{Block: piece(n), Shape: []int{n}, Strides: []int{1}, DType: dtype.Uint8}
		r := x.record([]*backend.Call{{Op: op.Copy, In: []backend.View{v}, Out: out}})
		f.lazy = rand.New(rand.NewPCG(seed, 3))
		f.onLaunch = func() func() { return func() { copy(view(out.Block.Addr, n), view(v.Block.Addr, n)) } }
		data := bytes.Repeat([]byte{5}, n)
		for _, at := range []int{0, n, 2 * n} { // beside it, and in it
			x.ok(x.d.CopyIn(piece(at), data, nil))
		}
		x.ok(r.Replay())
		if len(x.d.copies.pending) != 1 {
			t.Fatalf("the replay leaves %d copies, want the one that it does not use", len(x.d.copies.pending))
		}
		got := make([]byte, n)
		x.ok(x.d.CopyOut(got, out.Block, 0))
		if !slices.Equal(got, data) {
			t.Fatalf("seed %d: the replay was before the copy", seed)
		}
		x.ok(x.d.Synchronize())
		if len(x.d.copies.pending) != 0 {
			t.Error("copies are pending behind Synchronize")
		}
		x.close(r)
		f.lazy = nil
		arena.Free()
	}
}

// A recording that is closed while it is queued keeps its graph until the device is done.
func TestCloseWhileQueued(t *testing.T) {
	f, x := fakeRig(t)
	c := x.randomCall(100, 1)
	r := x.record([]*backend.Call{c})
	f.lazy = rand.New(rand.NewPCG(1, 1))
	ran := 0
	f.onLaunch = func() func() {
		return func() {
			if ran++; f.graphs.left() == 0 {
				t.Error("the graph is gone while it runs")
			}
		}
	}
	x.ok(r.Replay())
	r.Close()
	x.ok(x.d.Synchronize())
	if !eventually(func() bool { return f.graphs.left() == 0 }) || ran != 1 {
		t.Errorf("%d graphs are left, %d kernels ran", f.graphs.left(), ran)
	}
}

func queueingRig(t testing.TB) *rig {
	d, _ := queueing(t)
	return &rig{t, d, memory.NewPool(d)}
}

// recordIdle records calls, whose replays and changes are then calls of a C function that
// does nothing.
func (x *rig) recordIdle(calls []*backend.Call, late ...int) backend.Recording {
	drv, real := x.d.card.drv, fakeHot()
	nothing := drv.launchKernel
	drv.launchKernel, drv.graphs = real.launchKernel, real.graphs
	r := x.record(calls, late...)
	drv.launchKernel, drv.graphs.launch, drv.graphs.setKernel = nothing, nothing, nothing
	return r
}

// Changing and replaying are what the host does in a step: they leave nothing to collect.
func TestReplayingAllocatesNothing(t *testing.T) {
	x := queueingRig(t)
	random := x.randomCall(1000, 1)
	r := x.recordIdle([]*backend.Call{random, x.adamCall(3, 1)}, 0)
	if n := testing.AllocsPerRun(100, func() { x.ok(r.Replay()) }); n != 0 {
		t.Errorf("a replay allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { x.ok(r.Set(0, random)) }); n > 2 { // the kernel's name
		t.Errorf("a change allocates %v times", n)
	}
}

// BenchmarkChange is this package's own part of changing a late call.
func BenchmarkChange(b *testing.B) {
	x := queueingRig(b)
	for name, c := range map[string]*backend.Call{"random": x.randomCall(1000, 1), "adam of 10": x.adamCall(10, 1), "adam of 300": x.adamCall(300, 1)} {
		r := x.recordIdle([]*backend.Call{c}, 0)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := r.Set(0, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// blasCalls are what the fake cuBLAS was asked.
var blasCalls []string

// notingBLAS returns a library that notes what it is asked.
func notingBLAS() *blasLibrary {
	note := func(name string) uintptr {
		return purego.NewCallback(func(handle, a, b uintptr) uintptr {
			switch name {
			case "stream":
				name := "other stream"
				if a == current.made {
					name = "last stream"
				}
				blasCalls = append(blasCalls, name)
			default:
				blasCalls = append(blasCalls, name)
			}
			return 0
		})
	}
	return &blasLibrary{setStream: note("stream"), setWorkspace: note("workspace"), gemm: note("gemm"), gemmBatched: note("gemm")}
}

// cuBLAS is given the stream that captures and memory of the recording's, and gets its
// own back. What it does cannot be a late call.
func TestRecordWithBLAS(t *testing.T) {
	_, x := fakeRig(t)
	x.d.libs.blas, x.d.libs.lt = &blas{lib: notingBLAS(), handle: 1}, &lt{unavailable: true}
	m := func() backend.View { return x.view(dtype.Float32, []int{4, 128, 128}) }
	c := &backend.Call{Op: op.MatMul, In: []backend.View{m(), m()}, Out: m()}
	x.ok(x.d.Run(c))
	if x.d.Launches().Libraries != 1 {
		t.Errorf("counted %+v", x.d.Launches())
	}
	blasCalls = nil
	before := x.pool.Stats().InUse
	r := x.record([]*backend.Call{c, c})
	attempt := []string{"last stream", "workspace", "gemm", "gemm", "other stream"}
	first := []string{"last stream", "other stream"} // in which there was no room
	if !slices.Equal(blasCalls, append(first, attempt...)) && !slices.Equal(blasCalls, attempt) {
		t.Errorf("cuBLAS was asked %v", blasCalls)
	}
	if held := x.pool.Stats().InUse - before; held != 4<<20 {
		t.Errorf("%d bytes are held", held)
	}
	r.Close()
	if _, err := x.d.RecordCalls([]*backend.Call{c}, []bool{true}); err == nil || !strings.Contains(err.Error(), "cuBLAS does it") {
		t.Errorf("a late call of cuBLAS's: %v", err)
	}
	x.d.libs.blas.lib.setWorkspace = 0
	if _, err := x.d.RecordCalls([]*backend.Call{c}, nil); err == nil || !strings.Contains(err.Error(), "takes no workspace") {
		t.Errorf("an old cuBLAS: %v", err)
	}
}

// A convolution that cuDNN would have to time first is not recorded, and one that
// cuDNN refuses in a capture stays cuDNN's.
func TestRecordWithDNN(t *testing.T) {
	t.Setenv("LOCUS_CACHE", t.TempDir()) // nothing was timed before
	refuses := false
	conv := purego.NewCallback(func(_, _, _, _, _, _, _, _, _, _, _, _, _ uintptr) uintptr {
		if refuses {
			return 3000
		}
		return 0
	})
	stream := purego.NewCallback(func(_, _ uintptr) uintptr { return 0 })
	_, x := fakeRig(t)
	x.d.libs.dnn = &dnn{lib: &dnnLibrary{forward: conv, setStream: stream}, handle: 1, plans: map[convKey]*convPlan{}}
	c := convCall(op.Conv2D, dtype.Float32, op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}, [4]int{2, 4, 8, 8}, [4]int{4, 4, 3, 3})
	for _, v := range []*backend.View{&c.In[0], &c.In[1], &c.Out} {
		*v = x.view(dtype.Float32, v.Shape)
	}
	k := convKey{id: c.Op, attrs: c.Attrs.(op.Conv), dtype: dtype.Float32, aligned: true, a: [4]int(c.In[0].Shape), b: [4]int(c.In[1].Shape), as: [4]int(c.In[0].Strides), bs: [4]int(c.In[1].Strides)}
	p := &convPlan{choices: []convChoice{{algorithm: 6, memory: 1 << 20}}, work: 1 << 40}
	x.d.libs.dnn.plans[k] = p
	calls := []*backend.Call{x.randomCall(10, 1), c}
	if _, err := x.d.RecordCalls(calls, nil); !errors.Is(err, errUntimed) || !strings.Contains(err.Error(), "call 1 of 2, conv2d") {
		t.Errorf("an untimed convolution: %v", err)
	}
	x.ok(x.d.Run(c))
	refuses = true
	if _, err := x.d.RecordCalls(calls, nil); !errors.Is(err, errDNN) || len(p.choices) != 1 {
		t.Errorf("a refusal: %v, and %d choices are left", err, len(p.choices))
	}
	refuses = false
	x.ok(x.record(calls).Replay())
}

// Recording on two shares of a card at a time, beside ops of both.
func TestRecordOnShares(t *testing.T) {
	_, devices := openFake(t, 1)
	shares, err := devices[0].Split(64<<20, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	var rigs []*rig
	for _, d := range shares {
		d.libs.blas, d.libs.dnn = &blas{unavailable: true}, &dnn{unavailable: true}
		rigs = append(rigs, &rig{t, d, memory.NewPool(d)})
	}
	a, b := rigs[0].sortCall(sorted), rigs[1].sortCall(sorted)
	ra, rb := rigs[0].record([]*backend.Call{a}), rigs[1].record([]*backend.Call{b})
	for range 3 {
		rigs[0].ok(ra.Replay())
		rigs[1].ok(rb.Replay())
		rigs[0].ok(rigs[0].d.Run(a))
	}
	if rigs[0].d.Launches().Graphs != 3 || rigs[1].d.Launches() != (Launches{Graphs: 3}) {
		t.Errorf("%+v, %+v", rigs[0].d.Launches(), rigs[1].d.Launches())
	}
}
