//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// cuDNN accepts the operations that attention is described with: it checks them
// without a card. Which of them it runs on one, TestAttentionByDNN says.
func TestAttentionGraphs(t *testing.T) {
	lib := graphs(t, dnnAttention)
	for _, causal := range []bool{false, true} {
		m := inOrder([4]int64{4, 16, 2048, 128})
		k := &attentionKey{dtype: dtype.BFloat16, causal: causal, q: m, k: m, v: m, g: m, y: m}
		byRows, varies := *k, *k
		byRows.heads, varies.heads, varies.varies = 16, 16, true
		for name, describe := range map[string]func(*dnnGraph){"forward": k.forward, "backward": k.backward,
			"forward by rows": byRows.forward, "backward by rows": byRows.backward, "backward in no fixed order": varies.backward} {
			g := newDNNGraph(lib, new(call))
			if describe(g); g.failed {
				t.Errorf("%s, causal %v: cuDNN refuses operation %d", name, causal, len(g.ops))
			}
			g.forget()
		}
	}
}

// graphs is the machine's cuDNN, if it is not older than a version.
func graphs(t *testing.T, since uintptr) *dnnLibrary {
	lib, err := loadDNN(&driver{version: 13000})
	if err != nil {
		t.Skip(err)
	}
	if !lib.hasGraphs(since) {
		t.Skipf("cuDNN %d is too old", lib.version)
	}
	return lib
}

// fakeGraphs is the backend interface of a cuDNN that does nothing, or fails.
type fakeGraphs struct {
	fails         string // the function that fails
	made, running int    // descriptors that exist, plans executed
	last          uintptr
	notes         []int32
	engines       []int64 // of the configs, in their order; one if there are none
	asked         int     // how many of them were told
}

var currentGraphs *fakeGraphs

// fakeDNN is one library for all of them: callbacks cannot be freed.
var fakeDNN = sync.OnceValue(func() *dnnLibrary {
	l := &dnnLibrary{version: dnnAttention}
	answer := func(name string, work func()) uintptr {
		if currentGraphs.fails == name {
			return 3000
		}
		work()
		return 0
	}
	l.graph.create = purego.NewCallback(func(_, p uintptr) uintptr {
		return answer("create", func() { currentGraphs.made++; currentGraphs.last++; *(*uintptr)(pointer(p)) = currentGraphs.last })
	})
	l.graph.set = purego.NewCallback(func(_, _, _, _, _ uintptr) uintptr { return answer("set", func() {}) })
	l.graph.get = purego.NewCallback(func(_, attr, _, _, n, values uintptr) uintptr {
		return answer("get", func() {
			count := int64(1)
			switch attr {
			case attrPlanMemory:
				*(*int64)(pointer(values)) = 4096
			case attrNumbers:
				count = int64(len(currentGraphs.notes))
				for i, note := range currentGraphs.notes {
					*(*int32)(pointer(values + uintptr(4*i))) = note
				}
			case attrHeurResults:
				count = max(1, int64(len(currentGraphs.engines)))
			case attrEngineID:
				if e := currentGraphs.engines; len(e) > 0 {
					*(*int64)(pointer(values)) = e[currentGraphs.asked%len(e)]
					currentGraphs.asked++
				}
			case attrBehavior:
				count = 0
			}
			*(*int64)(pointer(n)) = count
		})
	})
	l.graph.finish = purego.NewCallback(func(_ uintptr) uintptr { return answer("finish", func() {}) })
	l.graph.execute = purego.NewCallback(func(_, _, _ uintptr) uintptr { return answer("execute", func() { currentGraphs.running++ }) })
	l.graph.destroy = purego.NewCallback(func(_ uintptr) uintptr { return answer("destroy", func() { currentGraphs.made-- }) })
	return l
})

// Where cuDNN fails, our own kernels do the work, and it is not asked again.
func TestAttentionFallsBack(t *testing.T) {
	for _, fails := range []string{"", "create", "set", "finish", "get", "execute"} {
		f, devices := openFake(t, 1)
		d := devices[0]
		d.card.major = 9
		graphs := &fakeGraphs{fails: fails}
		currentGraphs = graphs
		d.libs.dnn = &dnn{lib: fakeDNN(), handle: 1, attentions: map[attentionKey]*attentionPlan{}}
		x := &rig{t, d, memory.NewPool(d)}
		m := func() backend.View { return x.view(dtype.BFloat16, []int{2, 1024, 128}) }
		saved := x.view(dtype.Float32, []int{2, 1024})
		attrs := op.Attention{Scale: 1, Causal: true}
		for _, c := range []*backend.Call{
			{Op: op.Attend, Attrs: attrs, In: []backend.View{m(), m(), m()}, Out: m(), More: []backend.View{saved}},
			{Op: op.AttendGrad, Attrs: attrs, In: []backend.View{m(), m(), m(), m(), m(), saved}, Out: x.view(dtype.BFloat16, []int{3 * 2 * 1024 * 128})},
		} {
			for turn := range 2 {
				graphs.running, f.launches = 0, nil
				before := graphs.made
				x.ok(d.Run(c))
				if (graphs.running > 0) != (fails == "") || (len(f.launches) > 0) != (fails != "") {
					t.Errorf("%s, with %q failing: cuDNN ran %d plans and we launched %d kernels", c.Op, fails, graphs.running, len(f.launches))
				}
				if turn == 1 && graphs.made != before {
					t.Errorf("%s, with %q failing: the second call leaves %d descriptors behind", c.Op, fails, graphs.made-before)
				}
			}
		}
	}
}

// What cuDNN cannot read where it lies is not for it.
func TestMatricesForDNN(t *testing.T) {
	block := &memory.Block{}
	block.Addr = 4096
	for _, c := range []struct {
		name           string
		shape, strides []int
		offset         int
		ok             bool
		want           [4]int64 // strides
	}{
		{"in order", []int{2, 3, 128, 64}, []int{3 * 128 * 64, 128 * 64, 64, 1}, 0, true, [4]int64{3 * 128 * 64, 128 * 64, 64, 1}},
		{"heads beside each other", []int{2, 3, 128, 64}, []int{128 * 192, 64, 192, 1}, 64, true, [4]int64{128 * 192, 64, 192, 1}},
		{"one batch", []int{1, 3, 128, 64}, []int{0, 128 * 64, 64, 1}, 0, true, [4]int64{3 * 128 * 64, 128 * 64, 64, 1}},
		{"three axes", []int{3, 128, 64}, []int{128 * 64, 64, 1}, 0, true, [4]int64{3 * 128 * 64, 128 * 64, 64, 1}},
		{"columns apart", []int{3, 128, 64}, []int{128 * 64, 1, 128}, 0, false, [4]int64{}},
		{"a broadcast head", []int{3, 128, 64}, []int{0, 64, 1}, 0, false, [4]int64{}},
		{"rows at odd places", []int{3, 128, 64}, []int{128 * 68, 68, 1}, 0, false, [4]int64{}},
		{"an odd start", []int{3, 128, 64}, []int{128 * 64, 64, 1}, 4, false, [4]int64{}},
		{"five axes", []int{1, 1, 3, 128, 64}, []int{0, 0, 128 * 64, 64, 1}, 0, false, [4]int64{}},
	} {
		m, ok := matricesOf(&backend.View{Block: block, Offset: c.offset, Shape: c.shape, Strides: c.strides, DType: dtype.BFloat16})
		if ok != c.ok || ok && m.strides != c.want {
			t.Errorf("%s: %v %v; want %v %v", c.name, m.strides, ok, c.want, c.ok)
		}
	}
}
