//go:build unix

package board

import (
	"syscall"
	"time"
)

// cpuTime returns what the process has computed so far, which a busy machine does not change
// much.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
