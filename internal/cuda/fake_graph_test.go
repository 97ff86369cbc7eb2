//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"sync"
	"unsafe"
)

// fakeCaptures are the graphs of a fake driver: lists of launches.
type fakeCaptures struct {
	mu        *sync.Mutex
	capturing map[uintptr][]*fakeNode // by stream
	graphs    map[uintptr][]*fakeNode
	execs     map[uintptr]map[*fakeNode]launched
	order     map[uintptr][]*fakeNode // of an exec
	next      uintptr
	last      uintptr // where the last node of a capture is noted for who asks
	launched  int
}

type fakeNode struct{ launched }

func newFakeCaptures() fakeCaptures {
	return fakeCaptures{mu: new(sync.Mutex), capturing: map[uintptr][]*fakeNode{}, graphs: map[uintptr][]*fakeNode{},
		execs: map[uintptr]map[*fakeNode]launched{}, order: map[uintptr][]*fakeNode{}, next: 1000}
}

// captured takes a launch on a capturing stream.
func (g *fakeCaptures) captured(stream uintptr, l launched) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes, ok := g.capturing[stream]
	if ok {
		g.capturing[stream] = append(nodes, &fakeNode{l})
	}
	return ok
}

// left is how many graphs, of both kinds, have not been destroyed.
func (g *fakeCaptures) left() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.graphs) + len(g.execs)
}

func fakeGraphFunctions(d *graphFunctions, set func(*uintptr, any), simple func(string, func(*fake)) func() uintptr) {
	plain := func(name string, work func(*fake)) func() uintptr {
		return simple(name, func(f *fake) {
			f.graphs.mu.Lock()
			defer f.graphs.mu.Unlock()
			work(f)
		})
	}
	set(&d.beginCapture, func(stream, mode uintptr) uintptr {
		g := &current.graphs
		g.mu.Lock()
		_, ok := g.capturing[stream]
		g.mu.Unlock()
		if ok || mode != captureThreadLocal {
			return 1
		}
		return plain("cuStreamBeginCapture", func(f *fake) { f.graphs.capturing[stream] = []*fakeNode{} })()
	})
	set(&d.endCapture, func(stream, to uintptr) uintptr {
		g := &current.graphs
		g.mu.Lock()
		nodes, ok := g.capturing[stream]
		delete(g.capturing, stream)
		g.mu.Unlock()
		if !ok {
			return 1
		}
		return plain("cuStreamEndCapture", func(*fake) {
			g.next++
			g.graphs[g.next] = nodes
			*(*uintptr)(pointer(to)) = g.next
		})()
	})
	set(&d.captureInfo, func(stream, status, id, graph, nodes, count uintptr) uintptr {
		return plain("cuStreamGetCaptureInfo", func(f *fake) {
			g := &f.graphs
			l := g.capturing[stream]
			g.last = uintptr(unsafe.Pointer(l[len(l)-1]))
			*(*int32)(pointer(status)) = 1
			*(*uintptr)(pointer(nodes)) = uintptr(unsafe.Pointer(&g.last))
			*(*uint64)(pointer(count)) = 1
		})()
	})
	set(&d.instantiate, func(to, graph, flags uintptr) uintptr {
		return plain("cuGraphInstantiateWithFlags", func(f *fake) {
			g := &f.graphs
			g.next++
			nodes := g.graphs[graph]
			exec := map[*fakeNode]launched{}
			for _, n := range nodes {
				exec[n] = n.launched
			}
			g.execs[g.next], g.order[g.next] = exec, nodes
			*(*uintptr)(pointer(to)) = g.next
		})()
	})
	set(&d.upload, func(exec, stream uintptr) uintptr { return plain("cuGraphUpload", func(*fake) {})() })
	set(&d.launch, func(exec, stream uintptr) uintptr {
		return plain("cuGraphLaunch", func(f *fake) {
			f.graphs.launched++
			for _, n := range f.graphs.order[exec] {
				f.launch(stream, f.graphs.execs[exec][n])
			}
		})()
	})
	set(&d.setKernel, func(exec, node, params uintptr) uintptr {
		return plain("cuGraphExecKernelNodeSetParams", func(f *fake) {
			p := (*nodeParams)(pointer(params))
			f.graphs.execs[exec][(*fakeNode)(pointer(node))] = launched{f.kernels[p.kernel],
				[3]uintptr{uintptr(p.grid[0]), uintptr(p.grid[1]), uintptr(p.grid[2])}, uintptr(p.threads[0]), paramsAt(p.args)}
		})()
	})
	set(&d.destroy, func(graph uintptr) uintptr {
		return plain("cuGraphDestroy", func(f *fake) { delete(f.graphs.graphs, graph) })()
	})
	set(&d.destroyExec, func(exec uintptr) uintptr {
		return plain("cuGraphExecDestroy", func(f *fake) {
			delete(f.graphs.execs, exec)
			delete(f.graphs.order, exec)
		})()
	})
}
