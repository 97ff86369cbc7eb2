package disk_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/disk/faulty"
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
	long := strings.Repeat("x", 250)
	if base := filepath.Base(disk.TempName(long)); len(base) > 255 || !disk.IsTemp(base) {
		t.Errorf("of a long name: %q", base)
	}
	if one, two := disk.TempName("b"), disk.TempName("b"); one == two {
		t.Error("two temporary names are equal")
	}
}

func content(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func requireContent(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		t.Errorf("%s holds %q, not %q: %v", path, b, want, err)
	}
}

func TestWriteFileKeepsTheMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows has no such permissions")
	}
	for _, mode := range []os.FileMode{0o600, 0o640, 0o666, 0o444, 0o755} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		during := os.FileMode(0)
		err := disk.WriteFile(disk.OS, path, func(w io.Writer) error {
			info, err := w.(*os.File).Stat()
			if err != nil {
				return err
			}
			during = info.Mode().Perm()
			return content("new")(w)
		})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode || during != mode {
			t.Errorf("%v became %v, and was %v while it was written: %v", mode, info.Mode(), during, err)
		}
		os.Chmod(path, 0o600)
		requireContent(t, path, "new")
	}
}

func TestWriteFileFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	far := filepath.Join(dir, "far", "deep")
	if err := os.MkdirAll(far, 0o777); err != nil {
		t.Fatal(err)
	}
	link := func(to, name string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Skipf("skipped: no symbolic links here: %v", err)
		}
		return path
	}
	link(far, "folder")
	for name, c := range map[string]struct{ path, file string }{
		"to a file":              {link(filepath.Join(far, "a"), "one"), filepath.Join(far, "a")},
		"to a link":              {link("one", "two"), filepath.Join(far, "a")},
		"to nothing yet":         {link(filepath.Join("far", "deep", "b"), "three"), filepath.Join(far, "b")},
		"in a linked folder":     {filepath.Join(dir, "folder", "c"), filepath.Join(far, "c")},
		"out of a linked folder": {link("folder/../d", "four"), filepath.Join(dir, "far", "d")},
	} {
		before, _ := os.Readlink(c.path)
		for _, text := range []string{"first", "second"} {
			if err := disk.WriteFile(disk.OS, c.path, content(text)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			requireContent(t, c.file, text)
		}
		if after, _ := os.Readlink(c.path); after != before {
			t.Errorf("%s: the link is gone", name)
		}
	}
	loop := link("loop", "loop")
	if err := disk.WriteFile(disk.OS, loop, content("x")); err == nil {
		t.Error("a link to itself was written")
	}
}

func TestWriteFileRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := disk.WriteFile(disk.OS, dir, content("x")); !errors.Is(err, disk.ErrNotRegular) || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder: %v", err)
	}
}

// temps lists what is unfinished in a folder.
func temps(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if disk.IsTemp(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// What a dead process left goes with the next save of anything in the folder;
// what a live one is writing, and what only looks alike, stays.
func TestCleaning(t *testing.T) {
	dir := t.TempDir()
	dead := disk.TempName(filepath.Join(dir, "other"))
	if err := os.WriteFile(dead, []byte("half"), 0o666); err != nil {
		t.Fatal(err)
	}
	deadFolder := disk.TempName(filepath.Join(dir, "folder"))
	if err := os.MkdirAll(filepath.Join(deadFolder, "inside"), 0o777); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-48 * time.Hour) // systems without locks go by age
	for _, p := range []string{dead, filepath.Join(deadFolder, "inside"), deadFolder} {
		if err := os.Chtimes(p, long, long); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(dir, ".unfinished-business")
	if err := os.WriteFile(foreign, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	liveFolder, release, err := disk.MakeTemp(filepath.Join(dir, "live"), disk.OS.Mkdir)
	if err != nil {
		t.Fatal(err)
	}
	err = disk.WriteFile(disk.OS, filepath.Join(dir, "outer"), func(w io.Writer) error {
		if err := disk.WriteFile(disk.OS, filepath.Join(dir, "inner"), content("in")); err != nil {
			return err
		}
		if left := temps(t, dir); len(left) != 2 {
			t.Errorf("while two are written there are %v", left)
		}
		return content("out")(w)
	})
	if err != nil {
		t.Fatal(err)
	}
	requireContent(t, filepath.Join(dir, "outer"), "out")
	requireContent(t, filepath.Join(dir, "inner"), "in")
	if left := temps(t, dir); len(left) != 1 || left[0] != filepath.Base(liveFolder) {
		t.Errorf("left %v", left)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file that is not ours was removed")
	}
	release()
	if err := os.Chtimes(liveFolder, long, long); err != nil {
		t.Fatal(err)
	}
	disk.Clean(disk.OS, dir)
	if left := temps(t, dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// Many writers of one folder never take each other's files.
func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			path := filepath.Join(dir, fmt.Sprint("file", i%4))
			for j := range 25 {
				if err := disk.WriteFile(disk.OS, path, content(strings.Repeat(fmt.Sprint(j%10), 1000))); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
				if b, err := os.ReadFile(path); err != nil || len(b) != 1000 || strings.Trim(string(b), string(b[:1])) != "" {
					t.Errorf("writer %d: %d bytes, %v", i, len(b), err)
				}
			}
		})
	}
	wg.Wait()
	if left := temps(t, dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A process that is killed while it writes leaves something; the next save
// removes it.
func TestKilledWhileWriting(t *testing.T) {
	if path := os.Getenv("LOCUS_DISK_CHILD"); path != "" {
		disk.WriteFile(disk.OS, path, func(w io.Writer) error {
			fmt.Println("writing")
			time.Sleep(time.Minute)
			return nil
		})
		os.Exit(0)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	child := exec.Command(exe, "-test.run=^TestKilledWhileWriting$")
	child.Env = append(os.Environ(), "LOCUS_DISK_CHILD="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	if err := disk.WriteFile(disk.OS, filepath.Join(dir, "beside"), content("x")); err != nil {
		t.Fatal(err)
	}
	left := temps(t, dir)
	if len(left) != 1 {
		t.Fatalf("while another process writes there are %v", left)
	}
	child.Process.Kill()
	child.Wait()
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, left[0]), long, long); err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteFile(disk.OS, path, content("y")); err != nil {
		t.Fatal(err)
	}
	if left := temps(t, dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}
