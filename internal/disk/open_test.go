//go:build unix

package disk_test

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusml/locus/internal/disk"
)

// What is not a file is refused at once, with its name.
func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(fifo, link); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]string{fifo: "pipe", link: "pipe", dir: "folder", "/dev/null": "device", "/dev/zero": "device", socket: "socket"} {
		done := make(chan error, 1)
		go func() {
			_, err := disk.Open(path)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, disk.ErrNotRegular) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("opening %s hangs", path)
		}
		if err := disk.WriteFile(disk.OS, path, content("x")); !errors.Is(err, disk.ErrNotRegular) {
			t.Errorf("writing %s: %v", path, err)
		}
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345"), 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := disk.ReadFile(path, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := disk.ReadFile(path, 4); err == nil || !strings.Contains(err.Error(), "larger than 4") {
		t.Errorf("%v", err)
	}
	if _, err := disk.ReadFile(path+"no", 4); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestReadN(t *testing.T) {
	long := strings.Repeat("0123456789", 300_000)
	for _, n := range []int64{0, 1, 1 << 20, 1<<20 + 1, 2_999_999, 3_000_000} {
		if b, err := disk.ReadN(strings.NewReader(long), n); err != nil || string(b) != long[:n] {
			t.Errorf("%d bytes: %d came, %v", n, len(b), err)
		}
	}
	// A claim of a petabyte costs what is there.
	if b, err := disk.ReadN(strings.NewReader(long), 1<<50); !errors.Is(err, io.ErrUnexpectedEOF) || len(b) != len(long) || cap(b) > 4*len(long) {
		t.Errorf("%d bytes in %d, %v", len(b), cap(b), err)
	}
}

func TestMaxUnpacked(t *testing.T) {
	for packed, want := range map[int64]int64{0: 256 << 20, 1 << 20: 256 << 20, 1 << 30: 100 << 30, math.MaxInt64: math.MaxInt64} {
		if got := disk.MaxUnpacked(packed); got != want {
			t.Errorf("%d may become %d, not %d", packed, got, want)
		}
	}
}
