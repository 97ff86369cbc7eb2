package ring

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// memory is shared by two processes. It is a file without a name, so that nothing is left
// behind however they end.
type memory struct {
	bytes         []byte
	process, file int
}

// newMemory makes memory for this process and another one, which opens it.
func newMemory(size int) (*memory, error) {
	fd, err := unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	m := &memory{process: os.Getpid(), file: fd}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		m.closeFile()
		return nil, err
	}
	// Memory that the other side could take away would end this process with a signal.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		m.closeFile()
		return nil, err
	}
	if m.bytes, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		m.closeFile()
		return nil, err
	}
	return m, nil
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

const memoryName = "locus"

// openMemory opens what another process of the same user has made. In another container the
// number may be a different process's, whose files are left alone: to open a pipe with a name,
// or a device, is something that others notice.
func openMemory(process, file, size int) (*memory, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", process, file)
	if is, err := os.Readlink(path); err != nil || !strings.Contains(is, "memfd:"+memoryName) {
		return nil, fmt.Errorf("file %d of process %d is %q (%v)", file, process, is, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	m := &memory{file: fd}
	defer m.closeFile()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || has&seals != seals || st.Size != int64(size) {
		return nil, fmt.Errorf("file %d of process %d is not shared memory of %d bytes (%v)", file, process, size, err)
	}
	if m.bytes, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *memory) closeFile() { unix.Close(m.file) }

func (m *memory) unmap() { _ = unix.Munmap(m.bytes) } // mapped above

// yield lets another process have the core. Tests have others.
var yield = func() { syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
