package gemm

import "syscall"

// requestTiles asks Linux to let this process use AMX's tile registers: it
// saves them for processes that have asked only, because they are large.
func requestTiles() bool {
	const (
		requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
		tileData          = 18     // the state component
	)
	_, _, err := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return err == 0
}
