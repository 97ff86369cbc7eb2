package pool

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func withThreads(t testing.TB, n int) {
	t.Helper()
	old := SetThreads(n)
	t.Cleanup(func() { SetThreads(old) })
}

func TestForCoversEveryIndexOnceInFixedChunks(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		withThreads(t, threads)
		for _, n := range []int{0, 1, 2, 7, 64, 1000} {
			for _, grain := range []int{-1, 0, 1, 3, 64, 2000} {
				hits := make([]atomic.Int32, n)
				g := max(grain, 1)
				For(n, grain, func(lo, hi int) {
					if lo%g != 0 || hi != min(lo+g, n) {
						t.Errorf("n=%d grain=%d: chunk [%d,%d)", n, grain, lo, hi)
					}
					for i := lo; i < hi; i++ {
						hits[i].Add(1)
					}
				})
				for i := range hits {
					if hits[i].Load() != 1 {
						t.Fatalf("threads=%d n=%d grain=%d: index %d ran %d times", threads, n, grain, i, hits[i].Load())
					}
				}
			}
		}
	}
}

func TestNestedAndConcurrentLoops(t *testing.T) {
	withThreads(t, 4)
	var wg sync.WaitGroup
	var total atomic.Int64
	for range 16 {
		wg.Go(func() {
			for range 50 {
				For(8, 1, func(lo, hi int) {
					For(16, 2, func(lo, hi int) { total.Add(int64(hi - lo)) })
				})
			}
		})
	}
	wg.Wait()
	if got := total.Load(); got != 16*50*8*16 {
		t.Fatalf("counted %d", got)
	}
}

func TestHelpersNeverExceedTheLimit(t *testing.T) {
	withThreads(t, 3)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	const callers = 10
	var most atomic.Int64
	for range callers {
		wg.Go(func() {
			For(200, 1, func(lo, hi int) {
				if g := int64(runtime.NumGoroutine()); g > most.Load() {
					most.Store(g)
				}
				time.Sleep(10 * time.Microsecond)
			})
		})
	}
	wg.Wait()
	if most.Load() > int64(before+callers+2) {
		t.Fatalf("saw %d goroutines from %d before, %d callers and 2 helpers", most.Load(), before, callers)
	}
}

func TestNoGoroutineLeft(t *testing.T) {
	old := SetThreads(1)
	defer SetThreads(old)
	base := settle(t, -1)
	SetThreads(6)
	for range 100 {
		For(100, 1, func(lo, hi int) { runtime.Gosched() })
	}
	if g := runtime.NumGoroutine(); g > base+5 {
		t.Fatalf("%d goroutines, want at most %d", g, base+5)
	}
	SetThreads(1)
	settle(t, base)
}

// settle waits until the number of goroutines is want (or, for -1, steady).
func settle(t *testing.T, want int) int {
	t.Helper()
	g := runtime.NumGoroutine()
	for range 4000 {
		time.Sleep(5 * time.Millisecond)
		if n := runtime.NumGoroutine(); n == want || want < 0 && n == g {
			return n
		} else {
			g = n
		}
	}
	t.Fatalf("%d goroutines remain, want %d", g, want)
	return 0
}

func TestPanicReachesTheCaller(t *testing.T) {
	for _, threads := range []int{1, 4} {
		withThreads(t, threads)
		for range 50 {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); got != "boom 7" {
						t.Fatalf("recovered %q", got)
					}
				}()
				For(64, 1, func(lo, hi int) {
					if lo == 7 {
						panic("boom 7")
					}
				})
				t.Fatal("For returned")
			}()
			// The pool must still work.
			var sum atomic.Int64
			For(64, 1, func(lo, hi int) { sum.Add(int64(lo)) })
			if sum.Load() != 64*63/2 {
				t.Fatal("loop after a panic lost chunks")
			}
		}
	}
}

func TestGoexitInABodyDoesNotBreakThePool(t *testing.T) {
	withThreads(t, 2)
	for range 20 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { recover() }()
			For(2, 1, func(lo, hi int) {
				if lo == 0 { // give a helper the time to take the other chunk
					time.Sleep(time.Millisecond)
					return
				}
				runtime.Goexit()
			})
		}()
		<-ended
		var sum atomic.Int64
		For(64, 1, func(lo, hi int) { sum.Add(int64(lo)) })
		if sum.Load() != 64*63/2 {
			t.Fatal("a loop lost chunks")
		}
	}
}

func TestSetThreads(t *testing.T) {
	old := SetThreads(5)
	if Threads() != 5 {
		t.Fatalf("Threads() = %d", Threads())
	}
	if got := SetThreads(0); got != 5 {
		t.Fatalf("SetThreads gave back %d", got)
	}
	if want, _ := threadsFrom(os.Getenv("LOCUS_THREADS")); Threads() != want {
		t.Fatalf("Threads() = %d, want the default %d", Threads(), want)
	}
	SetThreads(old)
	most := runtime.GOMAXPROCS(0)
	for v, want := range map[string]int{"": most, " 3 ": 3, "5000": maxThreads} {
		if n, err := threadsFrom(v); n != want || err != nil {
			t.Errorf("LOCUS_THREADS=%q: %d, %v", v, n, err)
		}
	}
	for _, v := range []string{"nonsense", "-3", "0", "2.5", "99999999999999999999"} {
		var said strings.Builder
		n, err := threadsFrom(v)
		warn(&said, err)
		if n != most || !strings.Contains(said.String(), "LOCUS_THREADS="+strconv.Quote(v)+" is not a number of threads") {
			t.Errorf("LOCUS_THREADS=%q: %d threads, said %q", v, n, said.String())
		}
	}
}

func BenchmarkFanOut(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			withThreads(b, threads)
			b.ReportAllocs()
			for b.Loop() {
				For(2, 1, func(lo, hi int) {})
			}
		})
	}
}

// BenchmarkFanOutBusy has both threads truly take a share of about 2 µs.
func BenchmarkFanOutBusy(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			withThreads(b, threads)
			for b.Loop() {
				For(8, 1, func(lo, hi int) { pause(100) })
			}
		})
	}
}

func BenchmarkFanOutAfterIdle(b *testing.B) {
	withThreads(b, 2)
	for b.Loop() {
		b.StopTimer()
		time.Sleep(200 * time.Microsecond)
		b.StartTimer()
		For(2, 1, func(lo, hi int) {})
	}
}

// A loop that found the only helper busy gets it when it becomes free.
func TestAFreedHelperJoinsARunningLoop(t *testing.T) {
	withThreads(t, 2)
	release, busy := make(chan struct{}), make(chan struct{}, 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		For(2, 1, func(lo, hi int) {
			busy <- struct{}{}
			<-release
		})
	})
	<-busy
	<-busy
	both := make(chan struct{})
	var running atomic.Int32
	For(2, 1, func(lo, hi int) {
		if running.Add(1) == 1 {
			close(release)
		} else {
			close(both)
		}
		select {
		case <-both:
		case <-time.After(10 * time.Second):
			t.Error("the helper did not join")
		}
	})
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(open) > 0 {
		t.Errorf("%d loops are still open", len(open))
	}
}

func TestAwait(t *testing.T) {
	var n atomic.Int32
	go func() {
		for range 1000 {
			n.Add(1)
			runtime.Gosched()
		}
	}()
	Await(func() bool { return n.Load() == 1000 })
}
