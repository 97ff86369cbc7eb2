//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dontWait keeps open from waiting for the other end of a pipe.
const dontWait = unix.O_NONBLOCK

// ownLike sets f's owner to that of another file, if they differ and the process may:
// the superuser's save of a user's file leaves it the user's.
func ownLike(f *os.File, like os.FileInfo) {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	info, err := f.Stat()
	if err != nil {
		return
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && (have.Uid != want.Uid || have.Gid != want.Gid) {
		f.Chown(int(want.Uid), int(want.Gid))
	}
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some network file systems cannot flush a folder, and say so; they promise
	// nothing stronger.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
