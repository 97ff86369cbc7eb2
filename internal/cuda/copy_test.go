//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/locusml/locus/internal/memory"
)

func TestCopies(t *testing.T) {
	_, devices := openFake(t, 1)
	d := devices[0]
	locked := memory.NewPool(d.Pinned())
	for _, n := range []int{0, 1, smallSlot, smallSlot + 1, largeSlot, 5*largeSlot + 13} {
		for _, pinned := range []bool{false, true} {
			want, got := make([]byte, n), make([]byte, n)
			if pinned {
				want, got = lockedBytes(t, locked, n), lockedBytes(t, locked, n)
			}
			scramble(want, 7)
			b := block(t, d, n+1)
			var released atomic.Int32
			if err := d.CopyIn(b, want, func() { released.Add(1) }); err != nil {
				t.Fatal(err)
			}
			for _, off := range []int{0, n / 3} {
				g := got[:n-off]
				if err := d.CopyOut(g, b, off); err != nil || !bytes.Equal(g, want[off:]) {
					t.Errorf("%d bytes from %d are wrong (%v)", n-off, off, err)
				}
			}
			if !pinned && released.Load() != 1 || !eventually(func() bool { return released.Load() == 1 }) {
				t.Errorf("%d bytes, pinned %v: released %d times", n, pinned, released.Load())
			}
		}
	}
	if d.stages.large.made > d.stages.large.limit || d.stages.small.made > d.stages.small.limit {
		t.Errorf("%d and %d slots were made", d.stages.small.made, d.stages.large.made)
	}
}

// scramble fills b with something that differs from page to page and from seed to
// seed.
func scramble(b []byte, seed byte) {
	var page [1021]byte
	for i := range page {
		page[i] = byte(i) * 7
	}
	for k := 0; len(b) > 0; k++ {
		page[0], page[1], page[2] = byte(k), byte(k>>8), seed
		b = b[copy(b, page[:]):]
	}
}

func lockedBytes(t *testing.T, p *memory.Pool, n int) []byte {
	t.Helper()
	b, err := p.Allocate(n, func() memory.Label { return memory.Label{} })
	if err != nil || b.Ptr == nil {
		t.Fatalf("page-locked memory: %+v, %v", b, err)
	}
	t.Cleanup(func() {
		b.Free()
		p.Trim() // the fake's memory ends with it
	})
	return unsafe.Slice((*byte)(b.Ptr), n)
}

func eventually(f func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f() {
			return true
		}
	}
	return false
}

// Copies of all kinds, freeing and reusing give what they would one after the
// other, in whatever order the streams run.
func TestCopiesKeepTheirOrder(t *testing.T) {
	for seed := range uint64(30) {
		f, devices := openFake(t, 2)
		f.lazy = rand.New(rand.NewPCG(seed, 1))
		for _, d := range devices {
			d.stages.large.size = 1 << 20 // large ones take longer to get than the test to run
		}
		pick := rand.New(rand.NewPCG(seed, 2))
		const large = smallSlot + 8192
		pools := []*memory.Pool{memory.NewPool(devices[0]), memory.NewPool(devices[1])}
		locked := memory.NewPool(devices[0].Pinned())
		type held struct {
			*memory.Block
			on   int
			want []byte
		}
		fresh := func(on int) held {
			b, err := pools[on].Allocate(large, func() memory.Label { return memory.Label{} })
			if err != nil {
				t.Fatal(err)
			}
			return held{b, on, nil}
		}
		blocks := []held{fresh(0), fresh(0), fresh(1), fresh(1)}
		fill := func(b []byte) []byte {
			scramble(b, byte(pick.IntN(256)))
			return bytes.Clone(b)
		}
		check := func(x held) {
			got := make([]byte, len(x.want))
			if err := devices[x.on].CopyOut(got, x.Block, 0); err != nil || !bytes.Equal(got, x.want) {
				t.Fatalf("seed %d: a block on device %d holds something else (%v)", seed, x.on, err)
			}
		}
		type fetch struct {
			got, want []byte
			wait      func() error
		}
		var fetches, messages []fetch
		var lanes [2][3]int // by device
		for i, d := range devices {
			for k := range lanes[i] {
				var err error
				if lanes[i][k], err = d.OpenLane(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var passing atomic.Int32
		pass := func(d *Device, lane int, b *memory.Block, run, release func()) {
			fence, err := d.Fence(b)
			if err != nil {
				t.Fatal(err)
			}
			fence.Wait()
			passing.Add(1)
			if err := d.OnLane(lanes[slices.Index(devices, d)][lane], b, func(stream uintptr) error {
				f.enqueue(stream, func() bool { return true }, run)
				return nil
			}, func() { release(); passing.Add(-1) }); err != nil {
				t.Fatal(err)
			}
		}
		released := atomic.Int32{}
		for range 200 {
			x := &blocks[pick.IntN(len(blocks))]
			d := devices[x.on]
			switch pick.IntN(10) {
			case 9: // a message that leaves on a lane, from a block that is freed or written to meanwhile
				if x.want == nil {
					continue
				}
				got, b := make([]byte, len(x.want)), x.Block
				b.Hold()
				pass(d, pick.IntN(2), b, func() { copy(got, unsafe.Slice((*byte)(pointer(b.Addr)), len(got))) }, b.LetGo)
				messages = append(messages, fetch{got: got, want: bytes.Clone(x.want)})
				if pick.IntN(2) == 0 { // or it is written to
					x.Free()
					*x = fresh(x.on)
				}
			case 8: // a message that comes on a lane
				src := make([]byte, large)
				x.want = fill(src)
				to := x.Addr
				pass(d, 2, x.Block, func() { copy(unsafe.Slice((*byte)(pointer(to)), large), src) }, func() {})
			case 7: // read while others are queued, from a block that is freed meanwhile
				if x.want == nil {
					continue
				}
				dst, b := lockedBytes(t, locked, len(x.want)), x.Block
				b.Hold()
				wait, err := d.Fetch(dst, b, 0, func() { b.LetGo(); released.Add(1) })
				if err != nil {
					t.Fatal(err)
				}
				fetches = append(fetches, fetch{dst, x.want, wait})
				x.Free()
				*x = fresh(x.on)
			case 6: // by another library, from a block that is freed meanwhile
				y := &blocks[pick.IntN(len(blocks))]
				if y.on != x.on || y.Block == x.Block || len(y.want) != large {
					continue
				}
				y.Hold()
				to, from := x.Addr, y.Addr
				_, err := d.Foreign([]*memory.Block{y.Block}, x.Block, func(stream uintptr) error {
					f.enqueue(stream, func() bool { return true }, func() {
						copy(unsafe.Slice((*byte)(pointer(to)), large), unsafe.Slice((*byte)(pointer(from)), large))
					})
					return nil
				}, y.LetGo)
				if err != nil {
					t.Fatal(err)
				}
				x.want = bytes.Clone(y.want)
				y.Free()
				*y = fresh(y.on)
			case 0: // from page-locked memory, which is used for other things afterwards
				src := lockedBytes(t, locked, large)
				x.want = fill(src)
				if err := d.CopyIn(x.Block, src, func() { clear(src) }); err != nil {
					t.Fatal(err)
				}
			case 1: // staged
				src := make([]byte, large)
				x.want = fill(src)
				if err := d.CopyIn(x.Block, src, nil); err != nil {
					t.Fatal(err)
				}
				clear(src)
			case 2: // small
				src := make([]byte, smallSlot/2)
				head := fill(src)
				if x.want != nil {
					x.want = append(head, x.want[len(head):]...)
				} else {
					x.want = head
				}
				if err := d.CopyIn(x.Block, src, nil); err != nil {
					t.Fatal(err)
				}
			case 3: // between devices
				y := &blocks[pick.IntN(len(blocks))]
				if y.on == x.on || len(y.want) != large {
					continue
				}
				ok, err := d.CopyFrom(x.Block, devices[y.on], y.Block, large)
				if !ok || err != nil {
					t.Fatal(ok, err)
				}
				x.want = bytes.Clone(y.want)
			case 4: // freed and used again, whatever is on its way
				x.Free()
				*x = fresh(x.on)
			case 5:
				if x.want != nil {
					check(*x)
				}
			}
		}
		for i, x := range fetches {
			if err := x.wait(); err != nil || !bytes.Equal(x.got, x.want) {
				t.Fatalf("seed %d: fetch %d is something else (%v)", seed, i, err)
			}
		}
		if !eventually(func() bool { return passing.Load() == 0 }) {
			t.Errorf("%d messages are not released", passing.Load())
		}
		for i, x := range messages {
			if !bytes.Equal(x.got, x.want) {
				t.Fatalf("seed %d: message %d is something else", seed, i)
			}
		}
		if !eventually(func() bool { return int(released.Load()) == len(fetches) }) {
			t.Errorf("%d of %d fetches are released", released.Load(), len(fetches))
		}
		for _, x := range blocks {
			if x.want != nil {
				check(x)
			}
		}
		for _, d := range devices {
			if err := d.Synchronize(); err != nil {
				t.Fatal(err)
			}
			if d.behind != 0 || d.copies.last != nil || d.copies.joined != d.copies.queued {
				t.Errorf("after waiting, %d of %d copies are joined", d.copies.joined, d.copies.queued)
			}
			if e := d.Record(); !func() bool { e.Wait(); return e.Done() }() {
				t.Error("an event that was waited for is not done")
			}
		}
		for _, d := range devices { // nobody holds on to anything
			if !eventually(func() bool { d.mu.Lock(); defer d.mu.Unlock(); return !d.flights.awaited }) {
				t.Error("somebody still waits")
			}
		}
	}
}

// What cannot be copied is released all the same, once, and says why.
func TestFailedCopies(t *testing.T) {
	for _, call := range []string{"cuMemcpyHtoDAsync", "cuEventRecord", "cuStreamWaitEvent", "cuStreamCreate", "cuEventCreate"} {
		for _, pinned := range []bool{false, true} {
			f, devices := openFake(t, 1)
			d := devices[0]
			b := block(t, d, 1<<20)
			src := make([]byte, 1<<20)
			if pinned {
				src = lockedBytes(t, memory.NewPool(d.Pinned()), 1<<20)
			}
			f.results[call] = 1
			released := 0
			err := d.CopyIn(b, src, func() { released++ })
			var driver *Error
			if !errors.As(err, &driver) || driver.Call != call || released != 1 {
				t.Errorf("%s, pinned %v: %v, released %d times", call, pinned, err, released)
			}
			f.results[call] = success
			if err := d.CopyIn(b, src, nil); err != nil { // and it goes on
				t.Errorf("%s, pinned %v: afterwards %v", call, pinned, err)
			}
		}
	}
}

func TestPinnedMemory(t *testing.T) {
	for _, c := range []struct {
		size     int
		register Result
		mapped   int
	}{{1 << 20, success, 0}, {3<<20 + 64, success, 1}, {3<<20 + 64, 1, 0}} { // the last where the driver does not lock what it is given
		f, devices := openFake(t, 1)
		f.results["cuMemHostRegister"] = c.register
		testPinnedMemory(t, f, devices[0].Pinned(), c.size, c.mapped)
	}
}

func testPinnedMemory(t *testing.T, f *fake, s memory.Source, size, wantMapped int) {
	before, maps := len(pinnedRanges.l), len(mapped.m)
	r, err := s.Allocate(size)
	if err != nil || r.Size != size {
		t.Fatal(r, err)
	}
	if got := len(mapped.m) - maps; got != wantMapped {
		t.Errorf("%d bytes: %d mappings, want %d", size, got, wantMapped)
	}
	all := unsafe.Slice((*byte)(r.Ptr), r.Size)
	for _, b := range [][]byte{all, all[:1], all[5:100], all[r.Size-1:]} {
		if !pinnedRanges.contain(b) {
			t.Errorf("%d bytes at %p are not known", len(b), &b[0])
		}
	}
	if pinnedRanges.contain(unsafe.Slice((*byte)(r.Ptr), r.Size+1)) || pinnedRanges.contain(make([]byte, 8)) {
		t.Error("other memory counts as page-locked")
	}
	s.Free(r)
	if pinnedRanges.contain(all) || len(pinnedRanges.l) != before || len(mapped.m) != maps {
		t.Error("freed memory counts as page-locked")
	}
	f.results["cuMemHostAlloc"] = resultOutOfMemory
	if _, err := s.Allocate(1); !errors.Is(err, memory.ErrExhausted) {
		t.Errorf("no more to lock: %v", err)
	}
	f.results["cuMemHostAlloc"] = 1
	var driver *Error
	if _, err := s.Allocate(1); !errors.As(err, &driver) {
		t.Errorf("not allowed: %v", err)
	}
}

// Many goroutines copy at once, with fewer slots than they would like.
func TestCopiesFromManyGoroutines(t *testing.T) {
	_, devices := openFake(t, 1)
	d := devices[0]
	pool := memory.NewPool(d)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			n := 5<<20 - g
			src, got := bytes.Repeat([]byte{byte(g)}, n), make([]byte, n)
			for range 2 {
				b, err := pool.Allocate(n, func() memory.Label { return memory.Label{} })
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(d.CopyIn(b, src, nil), d.CopyOut(got, b, 0)); err != nil || !bytes.Equal(got, src) {
					t.Errorf("goroutine %d got something else (%v)", g, err)
				}
				b.Free()
			}
		})
	}
	wg.Wait()
}
