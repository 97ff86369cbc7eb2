package mpi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/engine"
)

// Comm is a rank's handle of all ranks that mpirun has started.
type Comm struct {
	lib        *library
	rank, size int
	comm       uintptr // of collectives
	messages   uintptr // of Send and Recv
	closed     bool
}

var _ engine.Host = (*Comm)(nil)

// Open makes this process a rank. All ranks of the world call it.
func Open(ctx context.Context, f Family) (*Comm, error) {
	c := &Comm{}
	err := apart(ctx, func() error {
		lib, err := start(f)
		if err != nil {
			return err
		}
		c.lib = lib
		return c.take(lib.world)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// undefined is the color of ranks without a group, in both families.
const undefined = -32766

// Split makes handles of smaller groups, one per color, with the ranks in the order of their
// keys. All ranks call it; those of color -1 get nil.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	part := &Comm{lib: c.lib}
	err := apart(ctx, func() error {
		with := int32(color)
		if color < 0 {
			with = undefined
		}
		at := new(uintptr) // C writes to it
		if err := c.lib.check("MPI_Comm_split", c.lib.commSplit(c.comm, with, int32(key), at)); err != nil || color < 0 {
			return err
		}
		retain()
		return part.take(*at)
	})
	if err != nil || color < 0 {
		return nil, err
	}
	return part, nil
}

// take makes copies of a communicator the handle's own: one for collectives, one for messages.
func (c *Comm) take(of uintptr) error {
	rank, size := new(int32), new(int32)
	for _, comm := range []*uintptr{&c.comm, &c.messages} {
		at := new(uintptr) // C writes to it
		if err := c.lib.check("MPI_Comm_dup", c.lib.commDup(of, at)); err != nil {
			return err
		}
		*comm = *at
		if err := c.lib.check("MPI_Comm_set_errhandler", c.lib.setErrHandler(*comm, c.lib.errorsReturn)); err != nil {
			return err
		}
	}
	if err := c.lib.check("MPI_Comm_rank", c.lib.commRank(c.comm, rank)); err != nil {
		return err
	}
	if err := c.lib.check("MPI_Comm_size", c.lib.commSize(c.comm, size)); err != nil {
		return err
	}
	c.rank, c.size = int(*rank), int(*size)
	return nil
}

// Rank and Size return where the process stands.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// Name returns "mpi".
func (c *Comm) Name() string { return "mpi" }

// Version returns what the library calls itself.
func (c *Comm) Version() string { return c.lib.version }

// Close leaves the group; with the last one MPI is finalized, for which it waits for the
// other ranks. A process with a broken group is not finalized: the ranks would wait for
// those that are gone.
func (c *Comm) Close(broken bool) {
	if broken {
		lose()
	}
	if !c.closed {
		c.closed = true
		stop()
	}
}

// apart runs f on a thread of its own and waits for it, or for the end of the context: then
// f is left behind, with the memory that it uses.
func apart(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		lose()
		return fmt.Errorf("%w: %w", engine.ErrAbandoned, ctx.Err())
	}
}

// pieceSize is what one call moves: numbers of elements are int32 in MPI, and libraries move
// several pieces faster than one large one.
const pieceSize = 16 << 20

// pieces calls f with the elements of a piece at a time.
func pieces(n, elementSize int, f func(from, to int) error) error {
	step := pieceSize / elementSize
	for from := 0; from < n; from += step {
		if err := f(from, min(from+step, n)); err != nil {
			return err
		}
	}
	return nil
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// AllReduce reduces all ranks' In to Out.
func (c *Comm) AllReduce(ctx context.Context, call *engine.Call) error {
	return c.reduce(ctx, call, len(call.In), func(w *wide) error {
		return pieces(len(w.in)/w.size, w.size, func(from, to int) error {
			return c.lib.check("MPI_Allreduce", c.lib.allreduce(pointer(w.in[from*w.size:]), pointer(w.out[from*w.size:]), int32(to-from), w.t, c.lib.ops[call.Op], c.comm))
		})
	})
}

// Reduce reduces In of all ranks to Out of the root.
func (c *Comm) Reduce(ctx context.Context, call *engine.Call) error {
	return c.reduce(ctx, call, len(call.In), func(w *wide) error {
		return pieces(len(w.in)/w.size, w.size, func(from, to int) error {
			var out unsafe.Pointer
			if w.out != nil {
				out = pointer(w.out[from*w.size:])
			}
			return c.lib.check("MPI_Reduce", c.lib.reduce(pointer(w.in[from*w.size:]), out, int32(to-from), w.t, c.lib.ops[call.Op], int32(call.Root), c.comm))
		})
	})
}

// ReduceScatter reduces In of all ranks; Out gets the rank's part.
func (c *Comm) ReduceScatter(ctx context.Context, call *engine.Call) error {
	counts, _, err := counts(call.Parts)
	if err != nil {
		return err
	}
	return c.reduce(ctx, call, len(call.In), func(w *wide) error {
		return c.lib.check("MPI_Reduce_scatter", c.lib.reduceScatter(pointer(w.in), pointer(w.out), &counts[0], w.t, c.lib.ops[call.Op], c.comm))
	})
}

// counts returns the sizes of parts and where they begin.
func counts(parts []int) (n, at []int32, err error) {
	if parts[len(parts)-1] > math.MaxInt32 {
		return nil, nil, fmt.Errorf("MPI takes at most %d elements in one call of this kind, not %d", math.MaxInt32, parts[len(parts)-1])
	}
	for i := range len(parts) - 1 {
		n, at = append(n, int32(parts[i+1]-parts[i])), append(at, int32(parts[i]))
	}
	return n, at, nil
}

// wide is memory in a type that MPI reduces: half-precision types become float32.
type wide struct {
	in, out []byte
	size    int
	t       uintptr
}

// reduce calls do with memory of a type that MPI knows, and finishes means. n is the size of
// what is reduced; where it is nothing, there is nothing to do.
func (c *Comm) reduce(ctx context.Context, call *engine.Call, n int, do func(*wide) error) error {
	if n == 0 {
		return nil
	}
	w := &wide{in: call.In, out: call.Out, size: call.DType.Size(), t: c.lib.types[call.DType]}
	half := call.DType.IsHalf()
	var in, out []float32
	if half {
		in, out = make([]float32, len(call.In)/2), make([]float32, len(call.Out)/2)
		vec.Widen(call.DType, in, words(call.In))
		w.in, w.size, w.t = bytesOf(in), 4, c.lib.types[dtype.Float32]
		if w.out = bytesOf(out); w.out == nil && call.Out != nil {
			w.out = []byte{}
		}
	}
	if err := apart(ctx, func() error { return do(w) }); err != nil {
		return err
	}
	if call.Op == engine.Mean {
		switch call.DType {
		case dtype.Float64:
			d := as[float64](call.Out)
			vec.DivSF64(d, d, float64(c.size))
		case dtype.Float32:
			d := as[float32](call.Out)
			vec.DivSF32(d, d, float32(c.size))
		default:
			vec.DivSF32(out, out, float32(c.size))
		}
	}
	if half {
		vec.Narrow(call.DType, words(call.Out), out)
	}
	return nil
}

func words(b []byte) []uint16 { return as[uint16](b) }

func as[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(*new(T))))
}

func bytesOf(f []float32) []byte {
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), len(f)*4)
}

// Broadcast copies the root's In to the others' Out.
func (c *Comm) Broadcast(ctx context.Context, call *engine.Call) error {
	b := call.Out
	if c.rank == call.Root {
		b = call.In
	}
	return apart(ctx, func() error { return c.bcast(b, call.Root) })
}

func (c *Comm) bcast(b []byte, root int) error {
	return pieces(len(b), 1, func(from, to int) error {
		return c.lib.check("MPI_Bcast", c.lib.bcast(pointer(b[from:]), int32(to-from), c.lib.byteType, int32(root), c.comm))
	})
}

// Share copies a text of rank 0 to all ranks: the address at which they meet.
func (c *Comm) Share(ctx context.Context, text string) (string, error) {
	b := make([]byte, 1024)
	if c.rank == 0 {
		if len(text) > len(b) {
			return "", fmt.Errorf("a text of %d bytes does not fit", len(text))
		}
		copy(b, text)
	}
	err := apart(ctx, func() error { return c.bcast(b, 0) })
	return string(bytes.TrimRight(b, "\x00")), err
}

// AllGather copies In of all ranks, each its part, to Out.
func (c *Comm) AllGather(ctx context.Context, call *engine.Call) error {
	n, at, err := counts(call.Parts)
	if err != nil || call.Parts[len(call.Parts)-1] == 0 {
		return err
	}
	t := c.lib.types[call.DType]
	if call.DType.IsHalf() {
		t = c.lib.types[dtype.Uint8] // pairs of bytes
		for i := range n {
			if at[i] > math.MaxInt32/2-n[i] {
				return fmt.Errorf("MPI takes at most %d half-precision elements in one call of this kind", math.MaxInt32/2)
			}
			n[i], at[i] = 2*n[i], 2*at[i]
		}
	}
	return apart(ctx, func() error {
		return c.lib.check("MPI_Allgatherv", c.lib.allgatherv(pointer(call.In), n[c.rank], t, pointer(call.Out), &n[0], &at[0], t, c.comm))
	})
}

// The tags of messages: what is sent, and the memory itself.
const (
	tagHead = 1
	tagData = 2
)

const messageHead = 512

// Send sends memory to a rank.
func (c *Comm) Send(ctx context.Context, to int, data []byte, what string) error {
	head := make([]byte, messageHead)
	binary.LittleEndian.PutUint64(head, uint64(len(data)))
	copy(head[8:], what)
	if err := c.post(ctx, c.lib.isend, "MPI_Isend", to, tagHead, head); err != nil {
		return err
	}
	return pieces(len(data), 1, func(from, end int) error { return c.post(ctx, c.lib.isend, "MPI_Isend", to, tagData, data[from:end]) })
}

// Recv receives what a rank sends.
func (c *Comm) Recv(ctx context.Context, from int, data []byte, what string) error {
	head := make([]byte, messageHead)
	if err := c.post(ctx, c.lib.irecv, "MPI_Irecv", from, tagHead, head); err != nil {
		return err
	}
	want := make([]byte, messageHead)
	binary.LittleEndian.PutUint64(want, uint64(len(data)))
	copy(want[8:], what)
	if !bytes.Equal(head, want) {
		return &engine.Mismatch{Msg: fmt.Sprintf("rank %d sends %q and rank %d expects %q", from, bytes.TrimRight(head[8:], "\x00"), c.rank, what)}
	}
	return pieces(len(data), 1, func(at, to int) error { return c.post(ctx, c.lib.irecv, "MPI_Irecv", from, tagData, data[at:to]) })
}

// post starts a message and polls until it is done, less and less often.
func (c *Comm) post(ctx context.Context, call func(unsafe.Pointer, int32, uintptr, int32, int32, uintptr, *uintptr) int32, name string, rank int, tag int32, b []byte) error {
	request, flag := new(uintptr), new(int32)
	if err := c.lib.check(name, call(pointer(b), int32(len(b)), c.lib.byteType, int32(rank), tag, c.messages, request)); err != nil {
		return err
	}
	wait := time.Microsecond
	for tries := 0; ; tries++ {
		if err := c.lib.check("MPI_Test", c.lib.test(request, flag, c.lib.ignore)); err != nil || *flag != 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			lose()
			return fmt.Errorf("%w: %w", engine.ErrAbandoned, err)
		}
		if tries < 100 {
			runtime.Gosched()
			continue
		}
		time.Sleep(wait)
		wait = min(2*wait, time.Millisecond)
	}
}
