//go:build unix

package weights

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOpenOfAPipeDoesNotHang(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.safetensors")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "named pipe", "/dev/zero": "device", t.TempDir(): "folder"} {
		done := make(chan error, 1)
		go func() {
			_, err := Open(path)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("opening %s hangs", path)
		}
	}
}
