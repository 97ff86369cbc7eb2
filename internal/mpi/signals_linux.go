package mpi

import (
	"syscall"
	"unsafe"
)

// action is what the kernel keeps of a signal's handler: its address, flags, the way back,
// and the mask.
type action [4]uint64

// keepSignals notes the handlers of signals. The function that it returns puts them back:
// parts of MPI libraries (UCX, as of MPICH's Debian package) take over faults to print a
// stack, after which Go's own panics would kill the process. SIGCHLD and SIGIO, which they
// may need, are left to them.
func keepSignals() (restore func()) {
	const most = 31
	var old [most + 1]action
	for s := 1; s <= most; s++ {
		sigaction(s, nil, &old[s])
	}
	return func() {
		for s := 1; s <= most; s++ {
			switch syscall.Signal(s) {
			case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGIO:
				continue
			}
			var now action
			if old[s][0] > 1 && sigaction(s, nil, &now) && now[0] != old[s][0] { // it was a function of Go's
				sigaction(s, &old[s], nil)
			}
		}
	}
}

func sigaction(s int, set, old *action) bool {
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
	return e == 0
}
