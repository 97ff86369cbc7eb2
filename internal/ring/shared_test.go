package ring

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
)

// open makes a ring of ranks in this process.
func open(t *testing.T, size int, sharing bool) []*Ring {
	t.Helper()
	Sharing = sharing
	t.Cleanup(func() { Sharing = true })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rings := make([]*Ring, size)
	members := make([]*control.Member, size)
	all(t, size, func(r int) error {
		cfg := control.Config{Rank: r, Size: size, Addr: l.Addr().String(), JoinWithin: 20 * time.Second, DeadAfter: 20 * time.Second}
		if r == 0 {
			cfg.Listener = l
		}
		m, err := control.Join(t.Context(), cfg)
		if err != nil {
			return err
		}
		members[r] = m
		rings[r], err = Open(t.Context(), m, r)
		return err
	})
	t.Cleanup(func() {
		all(t, size, func(r int) error {
			rings[r].Close(false)
			members[r].Close()
			return nil
		})
	})
	for _, r := range rings {
		if (r.shared != nil) != (sharing && runtime.GOOS == "linux") {
			t.Fatalf("rank %d shares memory: %v", r.rank, r.shared != nil)
		}
	}
	return rings
}

// all runs f as every rank.
func all(t *testing.T, size int, f func(r int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			if err := f(r); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Memory and TCP give the same bits, on all ranks, whatever the sizes: also of what does not
// fit the memory, and of ranks that come late.
func TestSharedAsTCP(t *testing.T) {
	for _, size := range []int{2, 3, 4} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			over := [2][]*Ring{open(t, size, false), open(t, size, true)}
			for i, n := range []int{0, 1, 2, 7, 15, 16, 17, 1000, 65_537, pipeSize/2 + 5} {
				for _, dt := range []dtype.DType{dtype.Uint8, dtype.BFloat16, dtype.Float32, dtype.Float64} {
					es := dt.Size()
					in := make([][]byte, size)
					for r := range in {
						in[r] = numbers(dt, n, uint64(r))
					}
					var out [2][][]byte
					for k, rings := range over {
						out[k] = make([][]byte, size)
						all(t, size, func(r int) error {
							if rand.IntN(4) == 0 {
								time.Sleep(rand.N(3 * time.Millisecond))
							}
							sum, whole, copied, root := make([]byte, n*es), make([]byte, n*es), make([]byte, n*es), make([]byte, n*es)
							parts := engine.Even(n, size)
							part := make([]byte, (parts[r+1]-parts[r])*es)
							call := func(op engine.Op, in, out []byte) *engine.Call {
								return &engine.Call{Seq: uint64(i), Kind: 7, DType: dt, Op: op, Root: 1, In: in, Out: out, Parts: parts}
							}
							ctx := context.Background()
							err := errors.Join(
								rings[r].AllReduce(ctx, call(engine.Mean, in[r], sum)),
								rings[r].ReduceScatter(ctx, call(engine.Sum, in[r], part)),
								rings[r].AllGather(ctx, call(engine.Sum, part, whole)),
								rings[r].Broadcast(ctx, call(engine.Sum, in[r], copied)),
								rings[r].Reduce(ctx, call(engine.Product, in[r], root)))
							if r == 1 {
								copied = in[1]
							} else {
								clear(root)
							}
							if !bytes.Equal(copied, in[1]) {
								err = errors.Join(err, fmt.Errorf("the broadcast of %d %v", n, dt))
							}
							out[k][r] = bytes.Join([][]byte{sum, whole}, nil)
							if r == 1 {
								out[k][r] = append(out[k][r], root...)
							}
							return err
						})
					}
					for r := range size {
						if !bytes.Equal(out[0][r], out[1][r]) {
							t.Fatalf("%d %v of rank %d are others over TCP and through memory", n, dt, r)
						}
						if m := 2 * n * es; !bytes.Equal(out[1][r][:m], out[1][0][:m]) {
							t.Fatalf("%d %v of rank %d are not those of rank 0", n, dt, r)
						}
					}
				}
			}
		})
	}
}

// numbers returns n small random numbers.
func numbers(dt dtype.DType, n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	b := make([]byte, n*dt.Size())
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	for i := range n { // exponents near zero, so that nothing overflows
		switch dt {
		case dtype.BFloat16:
			binary.LittleEndian.PutUint16(b[2*i:], uint16(r.IntN(1<<8)|0x3f00))
		case dtype.Float32:
			binary.LittleEndian.PutUint32(b[4*i:], r.Uint32()>>9|0x3f000000)
		case dtype.Float64:
			binary.LittleEndian.PutUint64(b[8*i:], r.Uint64()>>12|0x3fe<<52)
		}
	}
	return b
}

// A rank that waits ends when its context does, when its neighbor is gone, and when it is
// closed; and none of them touches memory that was given back.
func TestSharedEnds(t *testing.T) {
	sum := func(r *Ring, ctx context.Context) error {
		b := make([]byte, 4*pipeSize)
		return r.AllReduce(ctx, &engine.Call{DType: dtype.Float32, In: b, Out: make([]byte, len(b))})
	}
	for name, c := range map[string]struct {
		end  func(rings []*Ring, cancel func())
		want error
	}{
		"context":  {func(_ []*Ring, cancel func()) { cancel() }, context.Canceled},
		"neighbor": {func(rings []*Ring, _ func()) { rings[1].Close(true) }, nil},
		"closed":   {func(rings []*Ring, _ func()) { rings[0].Close(true) }, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			for _, wait := range []time.Duration{0, 30 * time.Millisecond} { // before it sleeps, and after
				rings := open(t, 2, true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- sum(rings[0], ctx) }()
				time.Sleep(wait)
				c.end(rings, cancel)
				select {
				case err := <-ended:
					if err == nil || c.want != nil && !errors.Is(err, c.want) {
						t.Error(err)
					}
				case <-time.After(10 * time.Second):
					t.Fatal("it hangs")
				}
			}
		})
	}
}

// Ranks that are in different collectives find out, and so does one whose neighbor writes
// nonsense into the memory.
func TestSharedOutOfStep(t *testing.T) {
	rings := open(t, 2, true)
	if rings[0].shared == nil {
		t.Skip("not run: this system shares no memory among processes")
	}
	all(t, 2, func(r int) error {
		err := rings[r].AllReduce(t.Context(), &engine.Call{Seq: uint64(r), DType: dtype.Float32, In: make([]byte, 64), Out: make([]byte, 64)})
		if !errors.Is(err, errOutOfStep) {
			return fmt.Errorf("out of step: %v", err)
		}
		return nil
	})
	for _, spoil := range []func(s *shared){
		func(s *shared) { s.out.c.read.Store(1 << 40) },
		func(s *shared) { s.in.c.written.Store(1 << 40) },
	} {
		rings := open(t, 2, true)
		spoil(rings[0].shared)
		err := rings[0].AllReduce(t.Context(), &engine.Call{DType: dtype.Float32, In: make([]byte, 64), Out: make([]byte, 64)})
		if !errors.Is(err, errOutOfStep) {
			t.Error(err)
		}
	}
}

// Every way to fill a pipe copies the same bytes, and nothing behind them.
func TestFill(t *testing.T) {
	m, err := newMemory(pipeControlSize + pipeSize)
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	defer m.unmap()
	m.closeFile()
	p := newPipe(m.bytes)
	for _, n := range []int{1, 63, 64, 65, streamMin - 1, streamMin, streamMin + 1, streamMin + 63, pipeStep, pipeSize} {
		for _, past := range []int{0, 1} {
			for _, at := range []int{0, 1, 4} { // operands lie anywhere
				src := numbers(dtype.Uint8, n+at, 1)[at:]
				clear(p.data)
				p.stream = past
				p.fill(p.data[:n], src)
				if !bytes.Equal(p.data[:n], src) {
					t.Fatalf("%d bytes are copied wrong, past the caches: %v", n, past == 1)
				}
				if n < len(p.data) && bytes.Count(p.data[n:], []byte{0}) != len(p.data)-n {
					t.Fatalf("more than %d bytes are copied, past the caches: %v", n, past == 1)
				}
			}
		}
	}
}

// A rank that waits ends with its context also where others want its core, so that each of its
// looks takes long.
func TestSharedEndsBusy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not run: this system shares no memory among processes")
	}
	was := yield
	yield = func() { time.Sleep(5 * time.Millisecond) }
	defer func() { yield = was }()
	for _, n := range []int{64, 4 * pipeSize} { // in turns, and both ways at the same time
		rings := open(t, 2, true)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := rings[0].AllReduce(ctx, &engine.Call{DType: dtype.Float32, In: make([]byte, n), Out: make([]byte, n)})
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 3*time.Second {
			t.Errorf("%d bytes: %v after %v", n, err, took)
		}
	}
}

// A rank does not wait for its neighbor's memory when the group is over.
func TestShareOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	all(t, 2, func(r int) error {
		cfg := control.Config{Rank: r, Size: 2, Addr: l.Addr().String(), JoinWithin: 20 * time.Second, DeadAfter: 20 * time.Second}
		if r == 0 {
			cfg.Listener = l
		}
		m, err := control.Join(t.Context(), cfg)
		if err != nil {
			return err
		}
		t.Cleanup(m.Close)
		if r == 0 {
			go func() {
				_, err := Open(t.Context(), m, 0)
				ended <- err
			}()
			return nil
		}
		for _, connect := range []func(context.Context, int, string) (net.Conn, error){m.Dial, m.Accept} { // and no more
			c, err := connect(t.Context(), 0, "ring")
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
		}
		m.Fail("it hangs")
		return nil
	})
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the ring is open")
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits for a rank that is given up")
	}
}
