//go:build unix

package gemm

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/locusml/locus/internal/cpu/pool"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCPU measures one thread by the CPU time it takes, which other work
// on a shared machine disturbs less than the clock.
func BenchmarkCPU(b *testing.B) {
	defer pool.SetThreads(pool.SetThreads(1))
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []struct {
		m, n, k int
		ta, tb  bool
	}{{m: 64, n: 64, k: 64}, {m: 100, n: 100, k: 100}, {m: 128, n: 128, k: 128}, {m: 200, n: 200, k: 200}, {m: 256, n: 256, k: 256},
		{m: 500, n: 500, k: 500}, {m: 1024, n: 1024, k: 1024}, {m: 2048, n: 2048, k: 2048},
		{m: 1024, n: 1024, k: 1024, tb: true}, {m: 1024, n: 1024, k: 1024, ta: true},
		{m: 256, n: 256, k: 784, tb: true}, {m: 256, n: 10, k: 256, tb: true}, {m: 1, n: 1024, k: 1024, tb: true}, {m: 1, n: 1024, k: 1024},
		{m: 8, n: 1024, k: 1024, tb: true}, {m: 8, n: 1024, k: 1024}, {m: 32, n: 1024, k: 1024, tb: true}, {m: 32, n: 1024, k: 1024}, {m: 64, n: 576, k: 12544}, {m: 64, n: 12544, k: 576}} {
		name := fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k)
		x, y := RowMajor(vector[float32](r, s.m*s.k), s.k), RowMajor(vector[float32](r, s.k*s.n), s.n)
		if s.ta {
			name += "/AT"
			x = RowMajor(x.Data, s.m).T()
		}
		if s.tb {
			name += "/BT"
			y = RowMajor(y.Data, s.k).T()
		}
		c := make([]float32, s.m*s.n)
		b.Run(name, func(b *testing.B) {
			flops := 2 * float64(s.m) * float64(s.n) * float64(s.k)
			rounds := max(1, int(1.5e9/flops)) // about 20 ms
			best := time.Hour
			for b.Loop() {
				t := cpuTime()
				for range rounds {
					F32(s.m, s.n, s.k, x, y, c, s.n, nil)
				}
				best = min(best, cpuTime()-t)
			}
			b.ReportMetric(flops*float64(rounds)/float64(best.Nanoseconds()), "best-GFLOP/s")
		})
	}
}
