package pool

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

var threads atomic.Int32

func init() {
	n, err := threadsFrom(os.Getenv("LOCUS_THREADS"))
	warn(os.Stderr, err)
	threads.Store(int32(n))
}

// warn says that a variable is not what it should be: it is read before a program
// begins, so there is nobody to return an error to.
func warn(w io.Writer, err error) {
	if err != nil {
		fmt.Fprintln(w, err)
	}
}

// maxThreads bounds what a mistyped LOCUS_THREADS can ask for.
const maxThreads = 1024

// threadsFrom returns the number in v, the value of LOCUS_THREADS; without one
// GOMAXPROCS, which since Go 1.25 is the smaller of the CPUs in the process's
// affinity mask and its cgroup (v1 or v2) CPU quota. The error says that v is not a
// number of threads.
func threadsFrom(v string) (int, error) {
	v = strings.TrimSpace(v)
	most := runtime.GOMAXPROCS(0)
	if v == "" {
		return most, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return most, fmt.Errorf("locus: LOCUS_THREADS=%q is not a number of threads such as 4; using %d", v, most)
	}
	return min(n, maxThreads), nil
}

// Threads returns how many goroutines, the caller among them, one For may use.
func Threads() int { return int(threads.Load()) }

// SetThreads changes what Threads returns, and returns the old number. n < 1 restores
// the default: LOCUS_THREADS, else the CPUs the process may use. Helpers beyond the
// new number end as soon as they are idle.
func SetThreads(n int) (old int) {
	if n < 1 {
		n, _ = threadsFrom(os.Getenv("LOCUS_THREADS"))
	}
	old = int(threads.Swap(int32(min(n, maxThreads))))
	trim()
	return old
}
