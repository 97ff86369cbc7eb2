package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/disk/faulty"
)

type state struct {
	Step int
	Key  uint64
	Loss float64
}

// tensorsOf returns tensors that show which step they are from.
func tensorsOf(step, n int) map[string]*locus.Tensor {
	return map[string]*locus.Tensor{"w": locus.CPU().Full(float64(step), n), "momentum": locus.CPU().As(locus.Int64).Full(float64(step), n)}
}

// requireStep makes sure that c is whole and all of one step, and returns it.
func requireStep(t *testing.T, c *Checkpoint) int {
	t.Helper()
	var s state
	if err := c.State(&s); err != nil {
		t.Fatal(err)
	}
	all, err := c.Tensors.LoadAll(locus.CPU())
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range all {
		if lo, hi := x.Min().Item(), x.Max().Item(); lo != float64(s.Step) || hi != float64(s.Step) {
			t.Fatalf("%s holds %v to %v at step %d", name, lo, hi, s.Step)
		}
	}
	if len(all) != 2 {
		t.Fatalf("%d tensors", len(all))
	}
	return s.Step
}

func TestSaveAndResume(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "a", "b"), 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Latest(); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	for step := 1; step <= 5; step++ {
		e, err := d.Save(tensorsOf(step, 10), state{step, math.MaxUint64 - 1, 0.1})
		if err != nil {
			t.Fatal(err)
		}
		if e.Number != step {
			t.Errorf("number %d at step %d", e.Number, step)
		}
	}
	whole, broken, err := d.List()
	if err != nil || len(broken) != 0 || len(whole) != 2 || whole[0].Number != 4 || whole[1].Number != 5 {
		t.Errorf("%v %v %v", whole, broken, err)
	}
	c, err := d.Latest()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var s state
	if err := c.State(&s); err != nil || s != (state{5, math.MaxUint64 - 1, 0.1}) {
		t.Errorf("%+v %v", s, err)
	}
	if requireStep(t, c) != 5 || time.Since(c.Saved) > time.Minute {
		t.Errorf("%+v", c.Entry)
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(d.Path()); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

// What breaks the newest leads to the one before, and is reported.
func TestBrokenOnesArePassedOver(t *testing.T) {
	flip := func(t *testing.T, path string, at int) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[(at+len(b))%len(b)] ^= 1
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, breakIt := range map[string]func(t *testing.T, path string) error{
		"no manifest":        func(t *testing.T, p string) error { return os.Remove(filepath.Join(p, manifestFile)) },
		"no tensors":         func(t *testing.T, p string) error { return os.Remove(filepath.Join(p, tensorsFile)) },
		"empty manifest":     func(t *testing.T, p string) error { return os.Truncate(filepath.Join(p, manifestFile), 0) },
		"half a manifest":    func(t *testing.T, p string) error { return os.Truncate(filepath.Join(p, manifestFile), 50) },
		"tensors cut":        func(t *testing.T, p string) error { return os.Truncate(filepath.Join(p, tensorsFile), 100) },
		"a bit flipped":      func(t *testing.T, p string) error { flip(t, filepath.Join(p, tensorsFile), -1); return nil },
		"a bit in the names": func(t *testing.T, p string) error { flip(t, filepath.Join(p, tensorsFile), 12); return nil },
		"a file instead": func(t *testing.T, p string) error {
			return errors.Join(os.RemoveAll(p), os.WriteFile(p, []byte("x"), 0o666))
		},
		"another's manifest": func(t *testing.T, p string) error {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(p), "checkpoint-00000001", manifestFile))
			return errors.Join(err, os.WriteFile(filepath.Join(p, manifestFile), b, 0o666))
		},
	} {
		t.Run(name, func(t *testing.T) {
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
			if err := breakIt(t, last.Path); err != nil {
				t.Fatal(err)
			}
			c, err := d.Latest()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if requireStep(t, c) != 1 {
				t.Error("not the one before")
			}
			if len(c.Skipped) != 1 || c.Skipped[0].Path != last.Path || c.Skipped[0].Err == nil {
				t.Errorf("skipped %v", c.Skipped)
			}
			if e, err := d.Save(tensorsOf(3, 10), state{Step: 3}); err != nil || e.Number != 3 {
				t.Errorf("%v %v", e, err)
			}
		})
	}
}

// Whatever step of saving fails, and whether or not the process lives on, the
// checkpoint before is intact, and saving works again afterwards.
func TestSaveSurvivesEveryFailure(t *testing.T) {
	for _, dead := range []bool{false, true} {
		for at := 1; ; at++ {
			d, err := Open(t.TempDir(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Save(tensorsOf(1, 100), state{Step: 1}); err != nil {
				t.Fatal(err)
			}
			fs := &faulty.FS{FailAt: at, Dead: dead, Err: syscall.ENOSPC}
			d.fs = fs
			_, saveErr := d.Save(tensorsOf(2, 100), state{Step: 2})
			d.fs = disk.OS
			c, err := d.Latest()
			if err != nil {
				t.Fatalf("failure at %d (dead %v): %v", at, dead, err)
			}
			if step := requireStep(t, c); saveErr == nil && step != 2 {
				t.Errorf("failure at %d (dead %v): saved, but the latest is step %d", at, dead, step)
			}
			c.Close()
			if saveErr != nil && !errors.Is(saveErr, syscall.ENOSPC) {
				t.Errorf("failure at %d: %v", at, saveErr)
			}
			if entries, _ := os.ReadDir(d.Path()); !dead && saveErr != nil && len(entries) > 2 {
				t.Errorf("failure at %d left %v", at, entries)
			}
			if _, err := d.Save(tensorsOf(3, 100), state{Step: 3}); err != nil {
				t.Fatal(err)
			}
			entries, _ := os.ReadDir(d.Path())
			if len(entries) != 1 {
				t.Errorf("failure at %d (dead %v): after the next save there are %v", at, dead, entries)
			}
			if !fs.Fired() {
				break
			}
		}
	}
}

// Names that only look like those of checkpoints neither stop saves nor hide
// them, and are not touched.
func TestStrayNames(t *testing.T) {
	for _, stray := range []string{
		"checkpoint-1073741823", "checkpoint-1073741824", "checkpoint-2147483647", "checkpoint-9223372036854775807",
		"checkpoint-99999999999999999999", "checkpoint-", "checkpoint-0", "checkpoint--1", "checkpoint-1", "checkpoint-00000000",
		"checkpoint-000000001", "checkpoint-x", "checkpoint-00000002", ".unfinished-business",
	} {
		for kind, make := range map[string]func(string) error{
			"folder": func(p string) error { return os.MkdirAll(filepath.Join(p, "inside"), 0o777) },
			"file":   func(p string) error { return os.WriteFile(p, []byte("x"), 0o666) },
			"link":   func(p string) error { return os.Symlink("nowhere", p) },
		} {
			d, err := Open(t.TempDir(), 2)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(d.Path(), stray)
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			for step := 1; step <= 4; step++ {
				e, err := d.Save(tensorsOf(step, 10), state{Step: step})
				if err != nil {
					t.Fatalf("%s %s: %v", kind, stray, err)
				}
				c, err := d.Latest()
				if err != nil {
					t.Fatalf("%s %s: after step %d: %v", kind, stray, step, err)
				}
				if requireStep(t, c) != step || c.Number != e.Number || e.Number > 10 {
					t.Errorf("%s %s: the latest is %d of step %d", kind, stray, c.Number, step)
				}
				c.Close()
			}
			if whole, _, err := d.List(); err != nil || len(whole) != 2 {
				t.Errorf("%s %s: kept %v, %v", kind, stray, whole, err)
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("%s %s: %v", kind, stray, err)
			}
		}
	}
}

// A whole checkpoint with a large number, copied from another run, is followed by
// larger ones: a new one is never the one that is removed. At the end of the
// numbers saving fails; nothing vanishes.
func TestLargeNumbers(t *testing.T) {
	d, err := Open(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Save(tensorsOf(1, 10), state{Step: 1})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(e.Path, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"number": 1`, fmt.Sprintf(`"number": %d`, maxNumber-2), 1))
	if err := os.WriteFile(filepath.Join(e.Path, manifestFile), text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(e.Path, filepath.Join(d.Path(), nameOf(maxNumber-2))); err != nil {
		t.Fatal(err)
	}
	for step := 2; step <= 3; step++ {
		if e, err = d.Save(tensorsOf(step, 10), state{Step: step}); err != nil || e.Number != maxNumber-3+step {
			t.Fatalf("%+v %v", e, err)
		}
	}
	if _, err := d.Save(tensorsOf(4, 10), state{Step: 4}); err == nil || !strings.Contains(err.Error(), "run out") {
		t.Error(err)
	}
	c, err := d.Latest()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if requireStep(t, c) != 3 {
		t.Error("the last one that was saved is gone")
	}
}

// A save that another process is busy with is not cleared away.
func TestUnfinishedOfTheLivingStays(t *testing.T) {
	d, err := Open(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	live, release, err := disk.MakeTemp(filepath.Join(d.Path(), nameOf(1)), disk.OS.Mkdir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := d.Save(tensorsOf(1, 10), state{Step: 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(live); err != nil {
		t.Error(err)
	}
}

func TestMisuse(t *testing.T) {
	if _, err := Open(t.TempDir(), -1); err == nil {
		t.Error("keeps -1")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, 1); err == nil {
		t.Error("a file was taken for a folder")
	}
	d, err := Open(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Save(nil, math.NaN()); err == nil || !strings.Contains(err.Error(), "JSON") {
		t.Error(err)
	}
	if _, err := d.Save(map[string]*locus.Tensor{"a": nil}, nil); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(d.Path()); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
	if _, err := d.Load(7); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestKilledWhileSaving kills a process that saves without pause, at random
// moments. Its last checkpoint that it knew to be safe must be there, or a
// later one, whole.
func TestKilledWhileSaving(t *testing.T) {
	if path := os.Getenv("LOCUS_CHECKPOINT_CHILD"); path != "" {
		saveForever(path)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	seen := map[int]bool{}
	last := 0
	for range 12 {
		child := exec.Command(exe, "-test.run=^TestKilledWhileSaving$")
		child.Env = append(os.Environ(), "LOCUS_CHECKPOINT_CHILD="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		safe := 0
		lines.Scan() // it is at work
		time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { child.Process.Kill() })
		for ok := true; ok; ok = lines.Scan() {
			fmt.Sscan(lines.Text(), &safe)
		}
		if err := child.Wait(); err == nil || child.ProcessState.ExitCode() == 2 {
			t.Fatalf("the child failed before it was killed: %v", err)
		}
		d, err := Open(path, 2)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.Latest()
		if err != nil {
			t.Fatal(err)
		}
		step := requireStep(t, c)
		if step < safe || step < last {
			t.Fatalf("the latest is step %d, but step %d was safe, and %d before", step, safe, last)
		}
		for _, b := range c.Skipped {
			if !disk.IsTemp(filepath.Base(b.Path)) {
				t.Errorf("half a checkpoint under a whole one's name: %v", b)
			}
			seen[step] = true
		}
		last = step
		c.Close()
	}
	t.Logf("%d of 12 kills hit a save in the middle; the last step is %d", len(seen), last)
}

func saveForever(path string) {
	d, err := Open(path, 2)
	if err != nil {
		panic(err)
	}
	step := 0
	if c, err := d.Latest(); err == nil {
		var s state
		if err := c.State(&s); err != nil {
			panic(err)
		}
		step = s.Step
		c.Close()
	}
	for {
		step++
		if _, err := d.Save(tensorsOf(step, 1<<18), state{Step: step}); err != nil {
			panic(err)
		}
		fmt.Println(step)
	}
}

// Whoever reads while a run saves and removes finds one, always.
func TestLatestWhileSaving(t *testing.T) {
	d, err := Open(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	x := tensorsOf(0, 3)
	if _, err := d.Save(x, 0); err != nil {
		t.Fatal(err)
	}
	stop, saved := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				saved <- nil
				return
			default:
			}
			if _, err := d.Save(x, i); err != nil {
				saved <- err
				return
			}
		}
	}()
	for range 300 {
		c, err := d.Latest()
		if err != nil {
			t.Error(err)
			break
		}
		c.Close()
	}
	close(stop)
	if err := <-saved; err != nil {
		t.Error(err)
	}
}
