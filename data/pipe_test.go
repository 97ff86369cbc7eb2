//go:build unix

package data

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusml/locus"
)

// No reader waits for the other end of a pipe.
func TestPipesDoNotHang(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "class", "pipe.png")
	if err := unix.Mkdir(filepath.Dir(pipe), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"ReadIDX":  func() error { _, err := ReadIDX(pipe); return err },
		"ReadText": func() error { _, err := ReadText(pipe); return err },
		"ReadCSV":  func() error { _, err := ReadCSV(pipe, CSVOptions{}); return err },
		"ImageFolder": func() error {
			d, err := ImageFolder(dir, ImageOptions{Height: 2, Width: 2})
			if err == nil {
				_, err = d.Batch([]int{0}, locus.NewKey(0))
			}
			return err
		},
	} {
		done := make(chan error, 1)
		go func() { done <- read() }()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "named pipe") {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s hangs", name)
		}
	}
}
