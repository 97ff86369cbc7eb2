//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// step is a list of calls with what they read, as a program has it.
type step struct {
	*rig
	inputs []backend.View // filled again before each turn
	calls  []*backend.Call
	late   []int
}

// in returns an operand that is filled again before each turn.
func (s *step) in(t dtype.DType, shape ...int) backend.View {
	v := s.view(t, shape)
	s.inputs = append(s.inputs, v)
	return v
}

func (s *step) out(t dtype.DType, shape ...int) backend.View { return s.view(t, shape) }

// add adds a call whose first result has a type and shape.
func (s *step) add(id op.ID, a op.Attrs, out backend.View, in ...backend.View) *backend.Call {
	c := &backend.Call{Op: id, Attrs: a, In: in, Out: out}
	s.calls = append(s.calls, c)
	return c
}

// addLate adds a call whose attributes change.
func (s *step) addLate(c *backend.Call) {
	s.late = append(s.late, len(s.calls))
	s.calls = append(s.calls, c)
}

// results are the bits of everything that the calls write.
func (s *step) results() (all [][]byte) {
	for _, c := range s.calls {
		for _, v := range append([]backend.View{c.Out}, c.More...) {
			b := make([]byte, v.Elements()*v.DType.Size())
			s.ok(s.d.CopyOut(b, v.Block, 0))
			all = append(all, b)
		}
	}
	return all
}

// turn prepares turn number n: other inputs, other numbers in late calls.
func (s *step) turn(n int) {
	for i, v := range s.inputs {
		s.fill(v, uint64(1000*n+i))
	}
	for _, i := range s.late {
		a, ok := lateNumbers(s.calls[i].Attrs, n)
		if !ok {
			s.t.Fatalf("call %d, %s, has no late numbers", i, s.calls[i].Op)
		}
		s.calls[i] = with(s.calls[i], a)
	}
}

func lateNumbers(a op.Attrs, n int) (op.Attrs, bool) {
	switch a := a.(type) {
	case op.Random:
		a.Key = uint64(77 * (n + 1))
		return a, true
	case op.Update:
		a.Rate, a.Root = 1e-2/float64(n+1), 1+1/float64(n+1)
		return a, true
	case op.Scales:
		a.B = 1 / float64(n+2)
		return a, true
	case op.Adam:
		a.Rate, a.Root = 1e-2/float64(n+1), 1+1/float64(n+1)
		return a, true
	}
	return a, false
}

// check checks the calls against the op table.
func (s *step) check() {
	s.t.Helper()
	for i, c := range s.calls {
		specs := make([]op.Spec, len(c.In))
		for k, v := range c.In {
			specs[k] = op.Spec{DType: v.DType, Shape: v.Shape}
		}
		out, err := op.Check(c.Op, c.Attrs, specs)
		if err != nil {
			s.t.Fatalf("call %d, %s: %v", i, c.Op, err)
		}
		want := []op.Spec{out}
		if more := op.Get(c.Op).More; more != nil && len(c.More) > 0 {
			want = append(want, more(c.Attrs, specs)...)
		}
		if len(want) != 1+len(c.More) {
			s.t.Fatalf("call %d, %s: %d results, want %d", i, c.Op, 1+len(c.More), len(want))
		}
		for k, w := range want {
			if v := resultOf(c, k); v.DType != w.DType || v.Elements() != op.Elements(w.Shape) {
				s.t.Fatalf("call %d, %s: result %d is %s of %v, want %s of %v", i, c.Op, k, v.DType, v.Shape, w.DType, w.Shape)
			}
		}
	}
}

// compare runs and replays the step, turn by turn, and compares the bits.
func (s *step) compare(turns int) {
	t := s.t
	t.Helper()
	run := func() {
		for _, c := range s.calls {
			s.ok(s.d.Run(c))
		}
	}
	s.turn(0)
	s.check()
	run()
	start := time.Now()
	r := s.record(s.calls, s.late...)
	t.Logf("%d calls recorded in %v", len(s.calls), time.Since(start).Round(time.Microsecond))
	for n := 1; n <= turns; n++ {
		s.turn(n)
		run()
		want := s.results()
		s.turn(n) // what was updated in place is as before
		for _, i := range s.late {
			s.ok(r.Set(i, s.calls[i]))
		}
		s.ok(r.Replay())
		got, k := s.results(), 0
		for i, c := range s.calls {
			for j := range 1 + len(c.More) {
				if !bytes.Equal(got[k], want[k]) {
					t.Errorf("turn %d: call %d, %s of %s: result %d of a replay has other bits than Run's", n, i, c.Op, c.Out.DType, j)
				}
				k++
			}
		}
	}
	r.Close()
}

// products adds matrix products of many kinds.
func (s *step) products(t dtype.DType) {
	s.add(op.MatMul, nil, s.out(t, 64, 48), s.in(t, 64, 100), s.in(t, 100, 48))               // our own
	s.add(op.MatMul, nil, s.out(t, 512, 768), s.in(t, 512, 1024), s.in(t, 1024, 768))         // cuBLASLt
	s.add(op.MatMul, nil, s.out(t, 16, 256, 64), s.in(t, 16, 256, 256), s.in(t, 16, 256, 64)) // cuBLAS
	s.add(op.MatMul, nil, s.out(t, 33, 77), s.in(t, 33, 8191), s.in(t, 8191, 77))             // long sums
	for _, act := range []op.ID{op.Invalid, op.Relu, op.GeluTanh} {
		s.add(op.Linear, op.Epilogue{Act: act}, s.out(t, 256, 512), s.in(t, 256, 512), s.in(t, 512, 512), s.in(t, 512))
	}
}

// convolutions adds convolutions and their gradients: for cuDNN with and without timing,
// and one for our own kernels, whose weight has gaps.
func (s *step) convolutions(t dtype.DType) {
	for _, c := range []struct{ x, w [4]int }{{[4]int{16, 64, 28, 28}, [4]int{64, 64, 3, 3}}, {[4]int{4, 3, 12, 12}, [4]int{6, 3, 5, 5}}} {
		for _, id := range convOps {
			call := convCall(id, t, op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}, c.x, c.w)
			a := call.Attrs.(op.Conv)
			if id != op.Conv2D {
				a.Size = [2]int(call.Out.Shape[2:])
			}
			s.add(id, a, s.out(t, call.Out.Shape...), s.in(t, call.In[0].Shape...), s.in(t, call.In[1].Shape...))
		}
	}
	w := s.in(t, 8, 6, 3, 4)
	w.Shape, w.Strides = []int{8, 6, 3, 3}, []int{72, 12, 4, 1}
	s.add(op.Conv2D, op.Conv{Stride: [2]int{2, 1}, Dilation: [2]int{1, 1}, Groups: 1}, s.out(t, 2, 8, 7, 13), s.in(t, 2, 6, 15, 15), w)
}

// attentions adds attention with its gradient, short and long, with and without a mask.
func (s *step) attentions(t dtype.DType) {
	for _, n := range []struct{ heads, length, depth int }{{8, 200, 64}, {2, 1024, 128}} {
		for _, causal := range []bool{false, true} {
			m := func() backend.View { return s.in(t, n.heads, n.length, n.depth) }
			q, k, v := m(), m(), m()
			a := op.Attention{Scale: 0.1, Causal: causal}
			saved := s.view(dtype.Float32, []int{n.heads, n.length})
			y := s.out(t, n.heads, n.length, n.depth)
			s.add(op.Attend, a, y, q, k, v).More = []backend.View{saved}
			s.add(op.AttendGrad, a, s.out(t, 3*n.heads*n.length*n.depth), m(), q, k, v, y, saved)
		}
	}
}

// norms adds normalizations with their gradients, whose sums blocks share.
func (s *step) norms(t dtype.DType) {
	for _, shape := range [][]int{{64, 32, 28, 28}, {512, 96}} {
		c := shape[1]
		a := op.Normalize{Eps: 1e-5, Weight: true, Bias: true}
		x, w, b := s.in(t, shape...), s.in(t, c), s.in(t, c)
		stat := func() backend.View { return s.view(dtype.Float32, []int{c}) }
		mean, rstd := stat(), stat()
		s.add(op.BatchNorm, a, s.out(t, shape...), x, w, b).More = []backend.View{mean, rstd, stat(), stat()}
		a.GradWeight, a.GradBias = true, true
		s.add(op.BatchNormGrad, a, s.out(t, shape...), s.in(t, shape...), x, w, mean, rstd).More = []backend.View{s.out(t, c), s.out(t, c)}
	}
	a := op.Normalize{From: 1, Params: [2]int{1, 2}, Eps: 1e-5, Weight: true, Bias: true}
	x, w, b := s.in(t, 1000, 384), s.in(t, 384), s.in(t, 384)
	mean, rstd := s.view(dtype.Float32, []int{1000}), s.view(dtype.Float32, []int{1000})
	s.add(op.Normalized, a, s.out(t, 1000, 384), x, w, b).More = []backend.View{mean, rstd}
	a.GradWeight, a.GradBias = true, true
	s.add(op.NormalizeGrad, a, s.out(t, 1000, 384), s.in(t, 1000, 384), x, w, mean, rstd).More = []backend.View{s.out(t, 384), s.out(t, 384)}
}

// rest adds what is left: elementwise ops, reductions, indices, lists, and late calls.
func (s *step) rest(t dtype.DType) {
	a, b := s.in(t, 300, 1000), s.in(t, 1000, 300)
	turned := backend.View{Block: b.Block, Shape: []int{300, 1000}, Strides: []int{1, 300}, DType: t}
	s.add(op.Add, nil, s.out(t, 300, 1000), a, turned)
	s.add(op.Tanh, nil, s.out(t, 300, 1000), a)
	s.add(op.Copy, nil, s.out(t, 300, 1000), turned)
	s.add(op.Softmax, op.Axis{Axis: 1}, s.out(t, 300, 1000), a)
	s.add(op.CumSum, op.Axis{Axis: 1}, s.out(t, 300, 1000), turned)
	for _, axes := range [][]int{{0}, {1}, {0, 1}} {
		shape := []int{300, 1000}
		for _, i := range axes {
			shape[i] = 1
		}
		for _, id := range []op.ID{op.Sum, op.LogSumExp, op.Norm} {
			s.add(id, op.Reduce{Axes: op.AxesOf(axes...)}, s.out(t, shape...), a)
		}
	}
	s.add(op.Sum, op.Reduce{Axes: op.AxesOf(0)}, s.out(t, 1, 64), s.in(t, 1<<16, 64))
	s.add(op.ArgSort, op.Axis{Axis: 1}, s.out(dtype.Int64, 300, 1000), a)
	index := s.view(dtype.Int64, []int{4096}) // drawn by a late call
	s.addLate(&backend.Call{Op: op.RandInt, Attrs: op.Random{DType: dtype.Int64, Shape: op.DimsOf([]int{4096}), Low: 0, Span: 500}, Out: index})
	table, grad := s.in(t, 500, 128), s.in(t, 4096, 128)
	s.add(op.Take, op.Axis{Axis: 0}, s.out(t, 4096, 128), table, index)
	s.add(op.IndexAdd, op.Axis{Axis: 0}, s.out(t, 500, 128), table, index, grad) // the gradient of an embedding
	noise := s.view(t, []int{300, 1000})
	s.addLate(&backend.Call{Op: op.RandUniform, Attrs: op.Random{DType: t, Shape: op.DimsOf(noise.Shape)}, Out: noise}) // dropout's
	s.add(op.Mul, nil, s.out(t, 300, 1000), noise, a)
	s.addLate(&backend.Call{Op: op.Blend, Attrs: op.Scales{A: 0.5}, In: []backend.View{a, turned}, Out: s.view(t, []int{300, 1000})})
	u := s.adamCall(300, 1e-3)
	for i, v := range u.In { // with gradients and moments that are random, the second ones squares
		if i%4 == 3 {
			s.add(op.Mul, nil, v, s.in(dtype.Float32, v.Shape...), s.in(dtype.Float32, v.Shape...))
			x := s.calls[len(s.calls)-1]
			x.In[1] = x.In[0]
			continue
		}
		s.inputs = append(s.inputs, v)
	}
	norm := s.view(dtype.Float32, []int{1})
	var grads []backend.View
	for i := 1; i < len(u.In); i += 4 {
		grads = append(grads, u.In[i])
	}
	s.add(op.GlobalNorm, nil, norm, grads...)
	s.addLate(u)
}

// Replays have the bits of Run, for everything that a training step may hold, in one
// recording each, with other inputs and other numbers each time.
func TestReplayOnCard(t *testing.T) {
	for _, c := range []struct {
		name string
		t    dtype.DType
		tf32 bool
	}{{"float32", dtype.Float32, false}, {"tf32", dtype.Float32, true}, {"bfloat16", dtype.BFloat16, false}, {"float16", dtype.Float16, false}, {"float64", dtype.Float64, false}} {
		for _, own := range []bool{false, true} {
			name := c.name
			if own {
				name += " without libraries"
			}
			t.Run(name, func(t *testing.T) {
				SetTF32(c.tf32)
				defer SetTF32(false)
				s := &step{rig: cardRig(t, 0)}
				s.t = t
				if own {
					s.d.libs.blas, s.d.libs.dnn = &blas{unavailable: true}, &dnn{unavailable: true}
				}
				s.products(c.t)
				s.convolutions(c.t)
				if c.t != dtype.Float64 {
					s.norms(c.t)
					s.attentions(c.t)
				}
				s.rest(c.t)
				s.compare(4)
			})
		}
	}
}

// One recording of a call, replayed beside another of the same and beside eager ops.
func TestRecordTwiceOnCard(t *testing.T) {
	s := &step{rig: cardRig(t, 0)}
	s.products(dtype.Float32)
	s.rest(dtype.Float32)
	s.turn(0)
	for _, c := range s.calls {
		s.ok(s.d.Run(c))
	}
	a, b := s.record(s.calls, s.late...), s.record(s.calls, s.late...)
	s.turn(1)
	for _, c := range s.calls {
		s.ok(s.d.Run(c))
	}
	want := s.results()
	for turn, r := range []backend.Recording{a, b, a} {
		s.turn(1)
		for _, i := range s.late {
			s.ok(r.Set(i, s.calls[i]))
		}
		s.ok(r.Replay())
		for i, got := range s.results() {
			if !bytes.Equal(got, want[i]) {
				t.Errorf("turn %d: result %d has other bits", turn, i)
			}
		}
		s.ok(s.d.Run(s.sortCall(sorted))) // uses memory between them
	}
}

// What is recorded and closed leaves nothing, on the card and in the pool.
func TestRecordingsLeaveNothingOnCard(t *testing.T) {
	s := &step{rig: cardRig(t, 0)}
	s.products(dtype.Float32)
	s.rest(dtype.Float32)
	s.turn(0)
	for _, c := range s.calls {
		s.ok(s.d.Run(c))
	}
	round := func() {
		r, err := s.d.RecordCalls(s.calls, nil)
		s.ok(err)
		s.ok(r.Replay())
		r.Close()
		s.ok(s.d.Synchronize())
	}
	free := func() int64 {
		s.close(&recording{d: s.d}) // waits for what is being destroyed
		s.pool.Trim()
		_, n := s.d.Memory()
		return n
	}
	for range 20 {
		round()
	}
	before, stats := free(), s.pool.Stats()
	start := time.Now()
	for range 200 {
		round()
	}
	each := time.Since(start) / 200
	after := free()
	t.Logf("%d calls: %v to record, replay and close; %.1f MiB less are free after 200 rounds", len(s.calls), each.Round(time.Microsecond), float64(before-after)/(1<<20))
	if before-after > 4<<20 || s.pool.Stats().InUse != stats.InUse {
		t.Errorf("%d bytes are lost, %+v", before-after, s.pool.Stats())
	}
}

// Many replays take no memory, neither of the card nor of the host.
func TestManyReplaysOnCard(t *testing.T) {
	x := cardRig(t, 0)
	v := x.view(dtype.Float32, []int{1000})
	x.fill(v, 1)
	random := x.randomCall(1000, 1)
	calls := []*backend.Call{random}
	for range 23 {
		calls = append(calls, &backend.Call{Op: op.Mul, In: []backend.View{v, random.Out}, Out: v})
	}
	for _, c := range calls {
		x.ok(x.d.Run(c))
	}
	r := x.record(calls, 0)
	var before, after runtime.MemStats
	var free [2]int64
	for turn, m := range []*runtime.MemStats{&before, &after} {
		for i := range 20000 * turn {
			a := random.Attrs.(op.Random)
			a.Key = uint64(i)
			x.ok(r.Set(0, with(random, a)))
			x.ok(r.Replay())
			if i%100 == 99 {
				x.ok(x.d.Synchronize())
			}
		}
		x.ok(x.d.Synchronize())
		_, free[turn] = x.d.Memory()
		runtime.GC()
		runtime.ReadMemStats(m)
	}
	t.Logf("after 20000 replays %d bytes less of the card are free, and the heap has %d bytes more", free[0]-free[1], int64(after.HeapAlloc)-int64(before.HeapAlloc))
	if free[0]-free[1] > 2<<20 || int64(after.HeapAlloc)-int64(before.HeapAlloc) > 1<<20 {
		t.Error("replays take memory")
	}
}

// The host's and the card's time of a replay, of a change, and of the same calls one by
// one, in the log.
func TestReplayTimes(t *testing.T) {
	x := cardRig(t, 0)
	const kernels = 24
	v, w := x.view(dtype.Float32, []int{256, 256}), x.view(dtype.Float32, []int{256, 256})
	var calls []*backend.Call
	for range kernels - 2 {
		calls = append(calls, &backend.Call{Op: op.Add, In: []backend.View{v, w}, Out: v})
	}
	random, adam := x.randomCall(1<<16, 1), x.adamCall(30, 1e-3)
	calls = append(calls, random, adam)
	try := func(err error) { // without Helper, which takes a part of a microsecond
		if err != nil {
			x.ok(err)
		}
	}
	run := func() {
		for _, c := range calls {
			try(x.d.Run(c))
		}
	}
	run()
	r := x.record(calls, kernels-2, kernels-1)
	x.ok(r.Replay())
	x.ok(x.d.Synchronize())
	measure := func(f func()) (host, whole time.Duration) {
		const turns = 200
		best := [2]time.Duration{time.Hour, time.Hour}
		for range 10 {
			start := time.Now()
			for range turns {
				f()
			}
			queued := time.Since(start)
			x.ok(x.d.Synchronize())
			best[0], best[1] = min(best[0], queued/turns), min(best[1], time.Since(start)/turns)
		}
		return best[0], best[1]
	}
	log := func(what string, f func()) {
		host, whole := measure(f)
		t.Logf("%-44s host %8v, with the card %8v", what, host, whole)
	}
	log(fmt.Sprintf("%d calls one by one", kernels), run)
	log("their replay", func() { try(r.Replay()) })
	log("a change of one kernel", func() { try(r.Set(kernels-2, random)) })
	log("a change of update_all of 30 tensors", func() { try(r.Set(kernels-1, adam)) })
	log("both changes and a replay", func() {
		try(r.Set(kernels-2, random))
		try(r.Set(kernels-1, adam))
		try(r.Replay())
	})
	log("a replay that is waited for", func() { try(r.Replay()); try(x.d.Synchronize()) })
	start := time.Now()
	const rounds = 20
	for range rounds {
		r, err := x.d.RecordCalls(calls, nil)
		x.ok(err)
		r.Close()
	}
	t.Logf("%d calls are recorded in %v", kernels, time.Since(start)/rounds)
}

// What cannot be captured is refused with the reason, and the device goes on.
func TestRecordRefusesOnCard(t *testing.T) {
	x := cardRig(t, 0)
	if dnnOf(t, x.d) == nil {
		t.Skip("there is no cuDNN")
	}
	call := convCall(op.Conv2D, dtype.Float32, op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}, [4]int{16, 64, 30, 30}, [4]int{64, 64, 3, 3})
	for _, v := range []*backend.View{&call.In[0], &call.In[1], &call.Out} {
		*v = x.view(dtype.Float32, v.Shape)
	}
	x.fill(call.In[0], 1)
	x.fill(call.In[1], 2)
	calls := []*backend.Call{x.randomCall(100, 1), call}
	if _, err := x.d.RecordCalls(calls, nil); !errors.Is(err, errUntimed) || !strings.Contains(err.Error(), "call 1 of 2, conv2d") {
		t.Errorf("a convolution that was never run: %v", err)
	}
	x.ok(x.d.Run(call))
	x.ok(x.record(calls).Replay())
	big := &backend.Call{Op: op.MatMul, In: []backend.View{x.view(dtype.Float32, []int{512, 512}), x.view(dtype.Float32, []int{512, 512})}, Out: x.view(dtype.Float32, []int{512, 512})}
	x.ok(x.d.Run(big))
	if _, err := x.d.RecordCalls([]*backend.Call{big}, []bool{true}); x.d.libs.lt != nil && !x.d.libs.lt.unavailable && (err == nil || !strings.Contains(err.Error(), "cuBLASLt does it")) {
		t.Errorf("a late product of cuBLASLt's: %v", err)
	}
	x.ok(x.d.Run(big))
	x.ok(x.d.Synchronize())
}

// A share of a card keeps to its cap when calls are recorded, and other devices of the
// card work meanwhile.
func TestRecordOnSharesOfCard(t *testing.T) {
	const n = 1 << 20 // a workspace of 24 MiB
	x, y := cardRig(t, 48<<20), cardRig(t, 256<<20)
	c, other := x.sortCall(n), y.sortCall(n)
	x.ok(x.d.Run(c))
	y.ok(y.d.Run(other))
	r := x.record([]*backend.Call{c})
	if err := x.sortsRight(c); !errors.Is(err, memory.ErrExhausted) { // both workspaces do not fit
		t.Errorf("beyond the cap: %v", err)
	}
	x.fill(c.In[0], 9)
	done := make(chan error)
	go func() {
		for range 50 {
			if err := y.d.Run(other); err != nil {
				done <- err
				return
			}
		}
		done <- y.d.Synchronize()
	}()
	for range 50 {
		again := y.record([]*backend.Call{other})
		y.ok(again.Replay())
		again.Close()
		x.ok(r.Replay())
	}
	x.ok(<-done)
	in, order := x.values(c.In[0]), x.positions(c.Out)
	for i := 1; i < len(order); i++ {
		if !(in[order[i-1]] <= in[order[i]]) {
			t.Fatalf("position %d is out of order", i)
		}
	}
	r.Close()
	x.ok(x.sortsRight(c))
}
