package nccl

import (
	"crypto/rand"
	"math"
	"sync"
	"unsafe"

	"github.com/locusml/locus/dtype"
)

// Fake returns a library that does in Go, in main memory, what NCCL does on cards: for tests
// on machines without any. Calls wait for all ranks and are done when they return.
func Fake(version int) *Library {
	f := &fake{groups: map[id]*fakeGroup{}}
	return &Library{
		Path: "a fake", Version: version,
		getUniqueID: func(i *id) int32 { rand.Read(i.bytes[:]); return 0 },
		initRank:    f.init,
		abort:       func(comm uintptr) int32 { f.comm(comm).abort(); return 0 },
		destroy:     func(uintptr) int32 { return 0 },
		asyncError:  func(_ uintptr, code *int32) int32 { *code = 0; return 0 },
		errorString: func(int32) string { return "the fake failed" },
		lastError:   func(uintptr) string { return "" },
		groupStart:  func() int32 { return 0 },
		groupEnd:    func() int32 { return 0 },
		allReduce: func(in, out uintptr, n uint64, t, op int32, comm, _ uintptr) int32 {
			return f.comm(comm).call(in, out, n, t, func(g *fakeGroup, i int) {
				for r := range g.size {
					put(t, g.out[r], i, g.reduced(t, op, i))
				}
			})
		},
		reduce: func(in, out uintptr, n uint64, t, op, root int32, comm, _ uintptr) int32 {
			return f.comm(comm).call(in, out, n, t, func(g *fakeGroup, i int) { put(t, g.out[root], i, g.reduced(t, op, i)) })
		},
		broadcast: func(in, out uintptr, n uint64, t, root int32, comm, _ uintptr) int32 {
			return f.comm(comm).call(in, out, n, t, func(g *fakeGroup, i int) {
				for r := range g.size {
					put(t, g.out[r], i, get(t, g.in[root], i))
				}
			})
		},
		allGather: func(in, out uintptr, n uint64, t int32, comm, _ uintptr) int32 {
			return f.comm(comm).call(in, out, n, t, func(g *fakeGroup, i int) {
				for r := range g.size {
					for k := range g.size {
						put(t, g.out[r], k*int(n)+i, get(t, g.in[k], i))
					}
				}
			})
		},
		reduceScatter: func(in, out uintptr, n uint64, t, op int32, comm, _ uintptr) int32 {
			return f.comm(comm).call(in, out, n, t, func(g *fakeGroup, i int) {
				for r := range g.size {
					put(t, g.out[r], i, g.reduced(t, op, r*int(n)+i))
				}
			})
		},
		send: func(in uintptr, n uint64, t, _ int32, comm, _ uintptr) int32 {
			return f.comm(comm).call(in, 0, n, t, func(g *fakeGroup, i int) { g.pass(n, t, i) })
		},
		recv: func(out uintptr, n uint64, t, _ int32, comm, _ uintptr) int32 {
			return f.comm(comm).call(0, out, n, t, func(g *fakeGroup, i int) { g.pass(n, t, i) })
		},
	}
}

type fake struct {
	mu     sync.Mutex
	groups map[id]*fakeGroup
	comms  []*fakeComm
}

// fakeGroup is where the ranks of a group meet.
type fakeGroup struct {
	size    int
	mu      sync.Mutex
	changed *sync.Cond
	came    int
	turn    int
	in, out []uintptr
	n       uint64 // of the first that came
	t       int32
	differ  bool // somebody came with another length or type
}

type fakeComm struct {
	group   *fakeGroup
	rank    int
	aborted bool // what this rank waits for ends; the others go on waiting, as on cards
}

func (f *fake) init(comm *uintptr, size int32, i id, rank int32) int32 {
	f.mu.Lock()
	g := f.groups[i]
	if g == nil {
		g = &fakeGroup{size: int(size), in: make([]uintptr, size), out: make([]uintptr, size)}
		g.changed = sync.NewCond(&g.mu)
		f.groups[i] = g
	}
	c := &fakeComm{group: g, rank: int(rank)}
	f.comms = append(f.comms, c)
	*comm = uintptr(len(f.comms)) // a handle that is not 0
	f.mu.Unlock()
	return c.call(0, 0, 0, 0, nil)
}

func (f *fake) comm(handle uintptr) *fakeComm {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.comms[handle-1]
}

func (c *fakeComm) abort() {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.aborted = true
	c.group.changed.Broadcast()
}

// call waits for all ranks; the last one does each element's work.
func (c *fakeComm) call(in, out uintptr, n uint64, t int32, do func(g *fakeGroup, i int)) int32 {
	g := c.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in[c.rank], g.out[c.rank] = in, out
	turn := g.turn
	if g.came++; g.came == 1 {
		g.n, g.t = n, t
	} else if n != g.n || t != g.t { // where NCCL would wait for ever or write too far
		g.differ = true
	}
	if g.differ {
		g.changed.Broadcast()
		return 5
	}
	if g.came == g.size {
		for i := range int(n) {
			do(g, i)
		}
		g.came = 0
		g.turn++
		g.changed.Broadcast()
		return 0
	}
	for g.turn == turn && !c.aborted && !g.differ {
		g.changed.Wait()
	}
	if g.differ {
		return 5
	}
	return 0 // as kernels that were aborted end
}

// pass copies, with the first element, all from the rank that sends to the one that receives.
func (g *fakeGroup) pass(n uint64, t int32, i int) {
	if g.in[0] == 0 || g.out[1] == 0 {
		panic("rank 0 of a pair sends and rank 1 receives")
	}
	if i == 0 {
		n *= uint64(map[int32]int{1: 1, 2: 4, 4: 8, 6: 2, 7: 4, 8: 8, 9: 2}[t])
		copy(unsafe.Slice(at[byte](g.out[1], 0), n), unsafe.Slice(at[byte](g.in[0], 0), n))
	}
}

// reduced is an element of all ranks' operands, reduced as NCCL numbers its ops.
func (g *fakeGroup) reduced(t, op int32, i int) float64 {
	acc := get(t, g.in[0], i)
	for _, p := range g.in[1:] {
		v := get(t, p, i)
		switch op {
		case 1:
			acc *= v
		case 2:
			acc = math.Max(acc, v)
		case 3:
			acc = math.Min(acc, v)
		default:
			acc += v
		}
	}
	if op == 4 {
		acc /= float64(g.size)
	}
	return acc
}

func at[T any](p uintptr, i int) *T {
	return (*T)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&p)), i*int(unsafe.Sizeof(*new(T)))))
}

func get(t int32, p uintptr, i int) float64 {
	switch t {
	case 2:
		return float64(*at[int32](p, i))
	case 4:
		return float64(*at[int64](p, i))
	case 6:
		return float64((*at[dtype.F16](p, i)).Float32())
	case 7:
		return float64(*at[float32](p, i))
	case 8:
		return *at[float64](p, i)
	case 9:
		return float64((*at[dtype.BF16](p, i)).Float32())
	}
	return float64(*at[uint8](p, i))
}

func put(t int32, p uintptr, i int, v float64) {
	switch t {
	case 2:
		*at[int32](p, i) = int32(v)
	case 4:
		*at[int64](p, i) = int64(v)
	case 6:
		*at[dtype.F16](p, i) = dtype.ToF16(float32(v))
	case 7:
		*at[float32](p, i) = float32(v)
	case 8:
		*at[float64](p, i) = v
	case 9:
		*at[dtype.BF16](p, i) = dtype.ToBF16(float32(v))
	default:
		*at[uint8](p, i) = uint8(int64(v))
	}
}
