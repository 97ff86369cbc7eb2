// Package nccl binds NVIDIA's library of collectives for GPUs. It is loaded where it is found,
// never linked. Functions that queue work take the stream on which it runs; the context of
// the card must be current on the calling thread.
package nccl

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/dynlib"
	"github.com/locusml/locus/internal/engine"
)

// IDSize is the size of what ranks find each other by.
const IDSize = 128

// id is passed by value.
type id struct{ bytes [IDSize]byte }

// Library is NCCL.
type Library struct {
	Path    string
	Version int // 22803 is 2.28.3

	getUniqueID   func(*id) int32
	initRank      func(comm *uintptr, size int32, id id, rank int32) int32
	abort         func(comm uintptr) int32
	destroy       func(comm uintptr) int32
	asyncError    func(comm uintptr, code *int32) int32
	errorString   func(code int32) string
	lastError     func(comm uintptr) string
	groupStart    func() int32
	groupEnd      func() int32
	allReduce     func(in, out uintptr, n uint64, t, op int32, comm, stream uintptr) int32
	reduce        func(in, out uintptr, n uint64, t, op, root int32, comm, stream uintptr) int32
	broadcast     func(in, out uintptr, n uint64, t, root int32, comm, stream uintptr) int32
	allGather     func(in, out uintptr, n uint64, t int32, comm, stream uintptr) int32
	reduceScatter func(in, out uintptr, n uint64, t, op int32, comm, stream uintptr) int32
	send          func(in uintptr, n uint64, t, to int32, comm, stream uintptr) int32
	recv          func(out uintptr, n uint64, t, from int32, comm, stream uintptr) int32
}

var loaded struct {
	once sync.Once
	lib  *Library
	err  error
}

// Load finds the library, once.
func Load() (*Library, error) {
	loaded.once.Do(func() { loaded.lib, loaded.err = load() })
	return loaded.lib, loaded.err
}

func load() (*Library, error) {
	l := dynlib.Library{Name: "NCCL", Env: "LOCUS_NCCL", Names: []string{"libnccl.so.2"}, Global: true,
		Folders: append(dynlib.Wheels("nvidia/nccl/lib"), append(dynlib.System(), "/usr/local/cuda*/lib64")...),
		Remedy:  "install libnccl2 (or pip install nvidia-nccl-cu13), or point LOCUS_NCCL to it"}
	h, err := l.Open()
	if err != nil {
		return nil, err
	}
	if unsafe.Sizeof(uintptr(0)) != 8 {
		return nil, dynlib.ErrBuild
	}
	n := &Library{}
	var getVersion func(*int32) int32
	err = h.Functions(map[string]any{
		"ncclGetVersion": &getVersion, "ncclGetUniqueId": &n.getUniqueID, "ncclCommInitRank": &n.initRank,
		"ncclCommAbort": &n.abort, "ncclCommDestroy": &n.destroy, "ncclCommGetAsyncError": &n.asyncError,
		"ncclGetErrorString": &n.errorString, "ncclGetLastError": &n.lastError, "ncclGroupStart": &n.groupStart, "ncclGroupEnd": &n.groupEnd,
		"ncclAllReduce": &n.allReduce, "ncclReduce": &n.reduce, "ncclBroadcast": &n.broadcast, "ncclAllGather": &n.allGather,
		"ncclReduceScatter": &n.reduceScatter,
	})
	if err != nil {
		return nil, err
	}
	if h.Functions(map[string]any{"ncclSend": &n.send, "ncclRecv": &n.recv}) != nil { // before 2.7
		n.send = nil
	}
	v := new(int32)
	if r := getVersion(v); r != 0 {
		return nil, fmt.Errorf("%s does not tell its version: result %d", h.Path(), r)
	}
	n.Version, n.Path = int(*v), h.Path()
	return n, nil
}

// String returns "NCCL 2.28.3".
func (l *Library) String() string {
	return fmt.Sprintf("NCCL %d.%d.%d", l.Version/10000, l.Version/100%100, l.Version%100)
}

// check turns a result into an error.
func (l *Library) check(name string, comm uintptr, r int32) error {
	if r == 0 {
		return nil
	}
	text := strings.TrimSpace(l.lastError(comm))
	if text != "" {
		text = ": " + text
	}
	return fmt.Errorf("%s: %s%s", name, l.errorString(r), text)
}

// NewID returns what the ranks of a new group find each other by.
func (l *Library) NewID() ([]byte, error) {
	i := new(id)
	if err := l.check("ncclGetUniqueId", 0, l.getUniqueID(i)); err != nil {
		return nil, err
	}
	return i.bytes[:], nil
}

// Comm is a rank's part in a group.
type Comm struct {
	lib        *Library
	comm       uintptr
	rank, size int

	mu    sync.Mutex
	ended bool // its memory may be gone
}

// Init makes a rank's part. All ranks call it at the same time; it waits for them.
func (l *Library) Init(unique []byte, rank, size int) (*Comm, error) {
	if len(unique) != IDSize {
		return nil, fmt.Errorf("an id of %d bytes", len(unique))
	}
	i := id{[IDSize]byte(unique)}
	comm := new(uintptr)
	if err := l.check("ncclCommInitRank", 0, l.initRank(comm, int32(size), i, int32(rank))); err != nil {
		return nil, err
	}
	return &Comm{lib: l, comm: *comm, rank: rank, size: size}, nil
}

// Abort ends the rank's part at once; kernels that wait for other ranks end too. It may be
// called while another thread is in a call.
func (c *Comm) Abort() { c.end(c.lib.abort) }

// Destroy ends the rank's part when everything is done.
func (c *Comm) Destroy() { c.end(c.lib.destroy) }

// end ends it once.
func (c *Comm) end(how func(comm uintptr) int32) {
	c.mu.Lock()
	first := !c.ended
	c.ended = true
	c.mu.Unlock()
	if first {
		how(c.comm)
	}
}

// Ended reports whether Abort or Destroy was called.
func (c *Comm) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// Err returns what went wrong on the network or on another rank since.
func (c *Comm) Err() error {
	c.mu.Lock() // it must not end meanwhile
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	code := new(int32)
	if err := c.lib.check("ncclCommGetAsyncError", c.comm, c.lib.asyncError(c.comm, code)); err != nil {
		return err
	}
	const inProgress = 7
	if *code == 0 || *code == inProgress {
		return nil
	}
	return c.lib.check("a collective", c.comm, *code)
}

// types and ops as NCCL numbers them.
var (
	types = map[dtype.DType]int32{dtype.Bool: 1, dtype.Uint8: 1, dtype.Int32: 2, dtype.Int64: 4, dtype.Float16: 6, dtype.Float32: 7, dtype.Float64: 8, dtype.BFloat16: 9}
	ops   = map[engine.Op]int32{engine.Sum: 0, engine.Product: 1, engine.Max: 2, engine.Min: 3, engine.Mean: 4}
)

// Call is one collective on addresses of the card. N is the number of elements of the
// operand, and Parts the borders of the ranks' parts, as in package engine.
type Call struct {
	In, Out uintptr
	N       int
	DType   dtype.DType
	Op      engine.Op
	Root    int
	Parts   []int
}

func (c *Comm) check(name string, r int32) error { return c.lib.check(name, c.comm, r) }

// AllReduce queues an all-reduce.
func (c *Comm) AllReduce(k *Call, stream uintptr) error {
	return c.check("ncclAllReduce", c.lib.allReduce(k.In, k.Out, uint64(k.N), types[k.DType], ops[k.Op], c.comm, stream))
}

// Reduce queues a reduce to the root.
func (c *Comm) Reduce(k *Call, stream uintptr) error {
	return c.check("ncclReduce", c.lib.reduce(k.In, k.Out, uint64(k.N), types[k.DType], ops[k.Op], int32(k.Root), c.comm, stream))
}

// Broadcast queues a broadcast from the root's In to Out of all.
func (c *Comm) Broadcast(k *Call, stream uintptr) error {
	return c.check("ncclBroadcast", c.lib.broadcast(k.In, k.Out, uint64(k.N), types[k.DType], int32(k.Root), c.comm, stream))
}

// AllGather queues an all-gather. Parts of different sizes are as many broadcasts.
func (c *Comm) AllGather(k *Call, stream uintptr) error {
	if even(k.Parts) {
		return c.check("ncclAllGather", c.lib.allGather(k.In, k.Out, uint64(k.Parts[1]), types[k.DType], c.comm, stream))
	}
	return c.each(k, func(i, n int, at uintptr) error {
		return c.check("ncclBroadcast", c.lib.broadcast(k.In, k.Out+at, uint64(n), types[k.DType], int32(i), c.comm, stream))
	})
}

// ReduceScatter queues a reduce-scatter. Parts of different sizes are as many reductions.
func (c *Comm) ReduceScatter(k *Call, stream uintptr) error {
	if even(k.Parts) {
		return c.check("ncclReduceScatter", c.lib.reduceScatter(k.In, k.Out, uint64(k.Parts[1]), types[k.DType], ops[k.Op], c.comm, stream))
	}
	return c.each(k, func(i, n int, at uintptr) error {
		return c.check("ncclReduce", c.lib.reduce(k.In+at, k.Out, uint64(n), types[k.DType], ops[k.Op], int32(i), c.comm, stream))
	})
}

// each queues something for each part that is not empty, as one piece of work.
func (c *Comm) each(k *Call, f func(i, n int, at uintptr) error) error {
	if err := c.check("ncclGroupStart", c.lib.groupStart()); err != nil {
		return err
	}
	var err error
	for i := range c.size {
		if n := k.Parts[i+1] - k.Parts[i]; n > 0 && err == nil {
			err = f(i, n, uintptr(k.Parts[i]*k.DType.Size()))
		}
	}
	if e := c.check("ncclGroupEnd", c.lib.groupEnd()); err == nil {
		err = e
	}
	return err
}

func even(parts []int) bool {
	for i := range len(parts) - 1 {
		if parts[i+1]-parts[i] != parts[1] {
			return false
		}
	}
	return true
}
