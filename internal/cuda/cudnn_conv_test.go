//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// convCall is a call of a convolution or gradient whose tensors have no memory.
func convCall(id op.ID, t dtype.DType, a op.Conv, x, w [4]int) *backend.Call {
	y := [4]int{x[0], w[0]}
	for i := range 2 {
		y[2+i] = op.ConvOut(x[2+i], w[2+i], a.Stride[i], a.Pad[i], a.Dilation[i])
	}
	view := func(s [4]int) backend.View {
		return backend.View{Block: &memory.Block{}, DType: t, Shape: s[:], Strides: []int{s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}}
	}
	c := &backend.Call{Op: id, Attrs: a, In: []backend.View{view(x), view(w)}, Out: view(y)}
	switch id {
	case op.ConvGradInput:
		c.In[0], c.Out = view(y), view(x)
	case op.ConvGradWeight:
		c.In[0], c.In[1], c.Out = view(y), view(x), view(w)
	}
	return c
}

var convOps = []op.ID{op.Conv2D, op.ConvGradInput, op.ConvGradWeight}

// cuDNN accepts the descriptions of convolutions, which it checks without a card.
func TestConvolutionGraphs(t *testing.T) {
	lib := graphs(t, dnnEngines)
	for _, id := range convOps {
		for _, dt := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.Float16, dtype.BFloat16} {
			for _, c := range []*backend.Call{
				convCall(id, dt, op.Conv{Stride: [2]int{2, 2}, Dilation: [2]int{1, 1}, Groups: 1}, [4]int{32, 64, 56, 56}, [4]int{128, 64, 1, 1}),
				convCall(id, dt, op.Conv{Stride: [2]int{1, 2}, Pad: [2]int{2, 1}, Dilation: [2]int{2, 1}, Groups: 3}, [4]int{1, 24, 17, 13}, [4]int{12, 8, 3, 3}),
			} {
				g := newDNNGraph(lib, new(call))
				if g.convolve(c); g.failed {
					t.Errorf("cuDNN refuses %s of %s with %+v", id, dt, c.Attrs)
				}
				g.forget()
			}
		}
	}
}

// What an engine's number and notes say decides whether it may run.
func TestAllowedEngines(t *testing.T) {
	const reduced, fft, anyOrder, winograd4 = 1 << 2, 1 << 3, 1 << 4, 1<<5 | 1<<6
	for _, c := range []struct {
		name   string
		op     op.ID
		dtype  dtype.DType
		tf32   bool
		engine dnnEngineInfo
		want   bool
	}{
		{"plain", op.Conv2D, dtype.Float32, false, dnnEngineInfo{70, 0, 0}, true},
		{"NaNs pass", op.ConvGradInput, dtype.Float32, false, dnnEngineInfo{2, noteStrictNaN, 0}, true},
		{"plain for another op", op.ConvGradInput, dtype.Float32, false, dnnEngineInfo{70, 0, 0}, false},
		{"one long chain", op.ConvGradWeight, dtype.Float32, false, dnnEngineInfo{67, 0, 0}, false},
		{"sums of halves without a note", op.ConvGradInput, dtype.Float16, false, dnnEngineInfo{2, 0, 0}, false},
		{"Winograd without a note", op.ConvGradWeight, dtype.Float32, false, dnnEngineInfo{17, 0, 0}, false},
		{"TF32 unasked", op.Conv2D, dtype.Float32, false, dnnEngineInfo{70, noteTensorCores, 0}, false},
		{"TF32", op.Conv2D, dtype.Float32, true, dnnEngineInfo{38, noteTensorCores | noteShortens, 0}, true},
		{"shortened unasked", op.Conv2D, dtype.Float32, false, dnnEngineInfo{70, noteShortens, 0}, false},
		{"a half on tensor cores", op.Conv2D, dtype.Float16, false, dnnEngineInfo{62, noteTensorCores, 0}, true},
		{"a half made shorter", op.Conv2D, dtype.BFloat16, true, dnnEngineInfo{62, noteTensorCores | noteShortens, 0}, false},
		{"sums of halves", op.Conv2D, dtype.Float16, false, dnnEngineInfo{62, noteTensorCores | reduced, 0}, false},
		{"float64 on tensor cores", op.Conv2D, dtype.Float64, false, dnnEngineInfo{62, noteTensorCores, 0}, true},
		{"a transform", op.Conv2D, dtype.Float16, false, dnnEngineInfo{70, noteTensorCores | fft, 0}, false},
		{"Winograd", op.Conv2D, dtype.Float32, true, dnnEngineInfo{70, noteTensorCores | winograd4, 0}, false},
		{"any order", op.ConvGradInput, dtype.Float64, false, dnnEngineInfo{2, noteTensorCores | anyOrder, 0}, false},
		{"compiled", op.Conv2D, dtype.Float16, false, dnnEngineInfo{62, noteTensorCores, noteCompiles}, false},
		{"compiled, and says more", op.Conv2D, dtype.Float16, false, dnnEngineInfo{62, noteTensorCores, noteCompiles | 1<<3}, false},
		{"behaves otherwise", op.Conv2D, dtype.Float16, false, dnnEngineInfo{62, noteTensorCores, 1 << 3}, true},
	} {
		if got := allowed(c.op, c.dtype, c.tf32, c.engine); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Plans join the choices unless cuDNN fails or they are not allowed, and nothing is
// left of those that are not kept.
func TestPlansOfConvolutions(t *testing.T) {
	matrix := []int32{0} // the note of engines that use the tensor cores
	for _, k := range []struct {
		fails string
		notes []int32
		found bool
	}{
		{"", matrix, true}, {"", []int32{0, 9}, true}, {"", []int32{0, 4}, false}, {"", nil, false},
		{"create", matrix, false}, {"set", matrix, false}, {"finish", matrix, false}, {"get", matrix, false}, {"execute", matrix, true},
	} {
		for _, id := range convOps {
			_, devices := openFake(t, 1)
			d := devices[0]
			fake := &fakeGraphs{fails: k.fails, notes: k.notes}
			currentGraphs = fake
			n := &dnn{lib: fakeDNN(), handle: 1}
			c := convCall(id, dtype.BFloat16, op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}, [4]int{2, 4, 8, 8}, [4]int{4, 4, 3, 3})
			algorithm := convChoice{algorithm: 1}
			p := &convPlan{choices: []convChoice{algorithm}}
			pool := memory.NewPool(d)
			queued := func(f func() error) error { return d.with(pool, id, f) } // as Run does
			do := func(f func()) {
				if err := queued(func() error { f(); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			do(func() { n.addPlans(d, c, p, false) })
			if found := len(p.choices) == 2; found != k.found || (p.graph != nil) != found {
				t.Errorf("%s, with %q failing and notes %v: a plan is found: %v, want %v", id, k.fails, k.notes, found, k.found)
			}
			if !k.found {
				if fake.made != 0 {
					t.Errorf("%s, with %q failing and notes %v: %d descriptors are left", id, k.fails, k.notes, fake.made)
				}
				continue
			}
			plan := p.choices[1]
			before := fake.made
			if ran := queued(func() error { return n.queue(d, c, p, plan) }) == nil; ran != (k.fails == "") || plan.memory != 4096 {
				t.Errorf("%s, with %q failing: the plan of %d bytes ran: %v", id, k.fails, plan.memory, ran)
			}
			if fake.made != before {
				t.Errorf("%s, with %q failing: a call leaves %d descriptors behind", id, k.fails, fake.made-before)
			}
			do(func() {
				p.choices = []convChoice{plan, algorithm, {plan: p.graph.create(dnnPlanKind)}}
				p.keepFirst()
			})
			if len(p.choices) != 1 || p.choices[0] != plan || fake.made != before {
				t.Errorf("%s: kept %v and %d descriptors of %d", id, p.choices, fake.made, before)
			}
			do(func() {
				p.choices = []convChoice{algorithm, plan}
				p.keepFirst()
			})
			if len(p.choices) != 1 || p.choices[0] != algorithm || p.graph != nil || fake.made != 0 {
				t.Errorf("%s: kept %v and %d descriptors of none", id, p.choices, fake.made)
			}
		}
	}
}

// Small convolutions never take cuDNN's algorithms, whose calls cost the host more than
// the card needs: the fake has none, and would fail. Size decides, and TF32 does not.
func TestSmallConvolutions(t *testing.T) {
	plain := op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	defer tf32.Store(tf32.Load())
	for _, k := range []struct {
		name    string
		id      op.ID
		x, w    [4]int
		engines []int64
		offset  int
		want    int64 // the engine, or 0 for our own kernels
	}{
		{"LeNet's second", op.Conv2D, [4]int{128, 6, 14, 14}, [4]int{16, 6, 5, 5}, []int64{1, 70, 70}, 0, 70},
		{"no engine that is allowed", op.Conv2D, [4]int{128, 6, 14, 14}, [4]int{16, 6, 5, 5}, []int64{1, 2}, 0, 0},
		{"not aligned", op.Conv2D, [4]int{128, 6, 14, 14}, [4]int{16, 6, 5, 5}, []int64{70}, 1, 0},
		{"the gradient of few channels", op.ConvGradInput, [4]int{128, 6, 14, 14}, [4]int{16, 6, 5, 5}, []int64{74, 2}, 0, 2},
		{"of many", op.ConvGradInput, [4]int{32, 64, 14, 14}, [4]int{64, 64, 1, 1}, []int64{74, 2}, 0, 74},
		{"of very few", op.ConvGradInput, [4]int{32, 3, 14, 14}, [4]int{64, 3, 3, 3}, []int64{74, 2}, 0, 0},
		{"few, without the engine for them", op.ConvGradInput, [4]int{128, 6, 14, 14}, [4]int{16, 6, 5, 5}, []int64{74}, 0, 74},
		{"of the weight", op.ConvGradWeight, [4]int{128, 6, 14, 14}, [4]int{16, 6, 5, 5}, []int64{70, 74, 2}, 0, 0},
	} {
		for _, allowed := range []bool{false, true} {
			f, x := fakeRig(t)
			fake := &fakeGraphs{engines: k.engines}
			currentGraphs = fake
			n := &dnn{lib: fakeDNN(), handle: 1, plans: map[convKey]*convPlan{}}
			x.d.libs.dnn = n
			tf32.Store(allowed)
			c := convCall(k.id, dtype.Float32, plain, k.x, k.w)
			for i, v := range []*backend.View{&c.In[0], &c.In[1], &c.Out} {
				shape := v.Shape
				*v = x.view(dtype.Float32, []int{op.Elements(shape) + k.offset})
				v.Shape, v.Strides = shape, op.Strides(shape)
				if i == 0 {
					v.Offset = k.offset
				}
			}
			for range 2 {
				fake.running, f.launches = 0, nil
				x.ok(x.d.Run(c))
				if (fake.running == 1) != (k.want != 0) || (len(f.launches) > 0) != (k.want == 0) {
					t.Errorf("%s, TF32 %v: cuDNN ran %d plans and we launched %v", k.name, allowed, fake.running, f.launches)
				}
			}
			p := n.plans[convKeyOf(c)]
			if p == nil || len(p.choices) > 1 || p.work != 0 {
				t.Fatalf("%s, TF32 %v: %+v", k.name, allowed, p)
			}
			if k.want != 0 && (len(p.choices) != 1 || p.choices[0].engine != k.want) {
				t.Errorf("%s, TF32 %v: chose %v, want the plan of engine %d", k.name, allowed, p.choices, k.want)
			}
			if k.want == 0 && fake.made != 0 {
				t.Errorf("%s, TF32 %v: %d descriptors are left", k.name, allowed, fake.made)
			}
		}
	}
}

// A choice that takes the host longer than the card counts with the host's time.
func TestTimedCountsTheHost(t *testing.T) {
	_, x := fakeRig(t)
	const pause = 2 * time.Millisecond
	x.ok(x.d.with(x.pool, op.Conv2D, func() error {
		took, err := x.d.timed(func() error { time.Sleep(pause); return nil })
		if err != nil || took < float32(pause.Seconds()*1e3) {
			t.Errorf("%v ms, %v; the host needs %v", took, err, pause)
		}
		return nil
	}))
}
