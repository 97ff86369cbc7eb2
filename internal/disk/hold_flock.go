//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A process holds what it has not finished with a lock, which the system lets go
// when the process ends. Unlike a process number in the name, that is right in
// containers and is never another process's.

// hold locks path. ok is false if it is not there any more, or about to go: one
// that cleans up was faster. Where there are no locks it does nothing.
func hold(path string) (release func(), ok bool) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		return func() {}, true
	}
	switch err := lock(f); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, false
	case err == nil:
		mine, err1 := f.Stat()
		there, err2 := os.Lstat(path)
		if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
			f.Close()
			return nil, false
		}
	}
	return func() { f.Close() }, true
}

// abandoned reports whether nobody holds path, which the caller then does.
func abandoned(path string) (release func(), ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return func() {}, old(path)
	}
	switch err := lock(f); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, false
	case err != nil: // a file system without locks
		return func() { f.Close() }, old(path)
	}
	return func() { f.Close() }, true
}

func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
