package disk_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/locusml/locus/weights/internal/disk"
	"github.com/locusml/locus/weights/internal/disk/faulty"
)

// Whatever step fails, the file holds the old content or the new, and a process
// that lives on leaves nothing unfinished behind.
func TestWriteFileSurvivesEveryFailure(t *testing.T) {
	write := func(w io.Writer) error {
		if _, err := io.WriteString(w, "new "); err != nil {
			return err
		}
		_, err := io.WriteString(w, "content")
		return err
	}
	for _, dead := range []bool{false, true} {
		for at := 1; ; at++ {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
				t.Fatal(err)
			}
			fs := &faulty.FS{FailAt: at, Dead: dead}
			err := disk.WriteFile(fs, path, write)
			got, readErr := os.ReadFile(path)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if s := string(got); s != "old" && s != "new content" || err == nil && s != "new content" {
				t.Errorf("failure at %d (dead %v): the file holds %q, err %v", at, dead, s, err)
			}
			if !fs.Fired() {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if err == nil {
				t.Errorf("failure at %d was not reported", at)
			}
			if entries, _ := os.ReadDir(dir); !dead && len(entries) != 1 {
				t.Errorf("failure at %d left %v", at, entries)
			}
		}
	}
}

func TestTempNames(t *testing.T) {
	name := disk.TempName(filepath.Join("a", "b"))
	if filepath.Dir(name) != "a" || !disk.IsTemp(filepath.Base(name)) || disk.IsTemp("b") {
		t.Errorf("%q", name)
	}
	if one, two := disk.TempName("b"), disk.TempName("b"); one == two {
		t.Error("two temporary names are equal")
	}
}
