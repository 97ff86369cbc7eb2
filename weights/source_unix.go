//go:build unix

package weights

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/locusml/locus/internal/disk"
)

// mapped is a file in memory: pages are read when they are touched and belong to
// the system's cache, not to this process.
type mapped []byte

func openSource(path string) (source, error) {
	file, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	size := info.Size()
	if size > 0 && size <= math.MaxInt {
		if m, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err == nil {
			file.Close() // the mapping stays
			return mapped(m), nil
		}
	}
	// Some file systems cannot map.
	return &plain{file, size, file.Close}, nil
}

func (m mapped) Size() int64  { return int64(len(m)) }
func (m mapped) Close() error { return unix.Munmap(m) }

func (m mapped) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 || off >= int64(len(m)) {
		return 0, io.EOF
	}
	if err := surviveFault(func() { n = copy(b, m[off:]) }); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Bytes touches every page before it hands them out: a device's stream that
// copies from them should not wait for the disk, and a page that cannot be read
// (the file was cut short since, a disk failed) is an error here, not the end of
// the process there.
func (m mapped) Bytes(off, n int64) ([]byte, error) {
	b := m[off : off+n : off+n]
	err := surviveFault(func() {
		var sum byte
		for i := 0; i < len(b); i += 4096 {
			sum += b[i]
		}
		if len(b) > 0 {
			sum += b[len(b)-1]
		}
		runtime.KeepAlive(sum)
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// surviveFault turns a fault at a mapped page into an error.
func surviveFault(f func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if fault, ok := r.(interface{ Addr() uintptr }); ok {
			err = fmt.Errorf("a page of the file cannot be read; was it cut short? (fault at %#x)", fault.Addr())
			return
		}
		panic(r)
	}()
	f()
	return nil
}
