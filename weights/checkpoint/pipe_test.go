//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusml/locus/internal/disk"
)

// A pipe in the place of a checkpoint's file does not stop who looks for the
// latest.
func TestPipesDoNotHang(t *testing.T) {
	for _, file := range []string{manifestFile, tensorsFile} {
		d, err := Open(t.TempDir(), 0)
		if err != nil {
			t.Fatal(err)
		}
		var last Entry
		for step := 1; step <= 2; step++ {
			if last, err = d.Save(tensorsOf(step, 10), state{Step: step}); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(last.Path, file)
		if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o666)); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := load(last.Path, last.Number); file == manifestFile && !errors.Is(err, disk.ErrNotRegular) || err == nil {
				t.Errorf("%s: %v", file, err)
			}
			c, err := d.Latest()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if c.Number != 1 {
				t.Errorf("%s: number %d", file, c.Number)
			}
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("a pipe as %s hangs", file)
		}
	}
}
