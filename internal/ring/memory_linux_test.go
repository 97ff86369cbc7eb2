package ring

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A file that is not such memory is not opened: what waits at the other end of a pipe with a
// name would notice.
func TestOpenOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skipf("not run: %v", err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	opened := make(chan error, 1)
	go func() {
		w, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) // waits for a reader
		if err == nil {
			unix.Close(w)
		}
		opened <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if _, err := openMemory(os.Getpid(), fd, pipeControlSize+pipeSize); err == nil {
		t.Error("a pipe is shared memory")
	}
	select {
	case <-opened:
		t.Error("openMemory has opened a pipe of another program's")
	case <-time.After(100 * time.Millisecond):
		r, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) // lets the writer go
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(r)
		<-opened
	}
}
