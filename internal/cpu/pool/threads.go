package pool

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

var threads atomic.Int32

func init() { threads.Store(int32(defaultThreads())) }

// maxThreads bounds what a mistyped LOCUS_THREADS can ask for.
const maxThreads = 1024

// defaultThreads is LOCUS_THREADS where it holds a positive number, else
// GOMAXPROCS, which since Go 1.25 is the smaller of the CPUs in the process's
// affinity mask and its cgroup (v1 or v2) CPU quota.
func defaultThreads() int {
	if n, err := strconv.Atoi(strings.TrimSpace(os.Getenv("LOCUS_THREADS"))); err == nil && n > 0 {
		return min(n, maxThreads)
	}
	return runtime.GOMAXPROCS(0)
}

// Threads returns how many goroutines, the caller among them, one For may use.
func Threads() int { return int(threads.Load()) }

// SetThreads changes what Threads returns and gives back the old number. n < 1
// restores the default: LOCUS_THREADS, else the CPUs the process may use.
// Helpers beyond the new number end as soon as they are idle.
func SetThreads(n int) (old int) {
	if n < 1 {
		n = defaultThreads()
	}
	old = int(threads.Swap(int32(min(n, maxThreads))))
	trim()
	return old
}
