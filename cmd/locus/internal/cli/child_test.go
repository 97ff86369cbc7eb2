//go:build unix

package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusml/locus/cmd/locus/internal/inspect"
	"github.com/locusml/locus/internal/testio"
)

// child prepares the command as a process of its own.
func child(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe, args...)
	c.Env = append(os.Environ(), "LOCUS_TEST_CHILD=1")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	return c, &out, &errs
}

func exitCode(err error) int {
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	return -1
}

// eventually waits for something that a child does.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain waited for " + what)
		}
	}
}

func TestInterruptKeepsACheckpoint(t *testing.T) {
	for sig, code := range map[os.Signal]int{os.Interrupt: ExitInterrupted, syscall.SIGTERM: ExitTerminated, syscall.SIGHUP: ExitHungUp} {
		if signal.Ignored(sig) { // and so it is by the child, which would never end
			t.Logf("%s is ignored, as nohup has it: not tried", sig)
			continue
		}
		out := filepath.Join(t.TempDir(), "run")
		args := []string{"train", "--model", "softmax", "--epochs", "1000000", "--out", out}
		c, _, errs := child(t, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(out, "checkpoints")
		eventually(t, "a checkpoint", func() bool {
			found, _ := filepath.Glob(filepath.Join(folder, "checkpoint-*"))
			return len(found) > 1
		})
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if got := exitCode(c.Wait()); got != code {
			t.Errorf("%s: exit code %d\n%s", sig, got, errs)
		}
		if !strings.Contains(errs.String(), "--resume") || strings.Count(withoutProgress(errs.String()), "\n") != 1 {
			t.Errorf("%s: %q", sig, errs)
		}
		f, err := inspect.Look(folder, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		var state struct{ Epoch int }
		parse(t, string(f.State), &state)
		epochs := strconv.Itoa(state.Epoch + 2)
		r := call("80", "train", "--model", "softmax", "--epochs", epochs, "--out", out, "--resume")
		if r.code != 0 || !strings.Contains(r.out, "of "+epochs+")") {
			t.Errorf("resumed: %+v", r)
		}
	}
}

// A terminal that closes sends its hangup more than once, and some send it right
// after a request to end: the checkpoint is written all the same.
func TestHangupTwice(t *testing.T) {
	for _, first := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		out := filepath.Join(t.TempDir(), "run")
		c, _, errs := child(t, "train", "--model", "mlp", "--epochs", "1000000", "--out", out)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the folder", func() bool { _, err := os.Stat(filepath.Join(out, "checkpoints")); return err == nil })
		for _, s := range []os.Signal{first, syscall.SIGHUP, syscall.SIGHUP} {
			c.Process.Signal(s) // the last may come too late
			time.Sleep(2 * time.Millisecond)
		}
		// The system may deliver two that wait in the order of their numbers.
		if got := exitCode(c.Wait()); got != 128+int(first) && got != ExitHungUp || !strings.Contains(errs.String(), "--resume") {
			t.Errorf("%s: exit code %d\n%s", first, got, errs)
		}
	}
}

// What nohup has a process ignore it ignores.
func TestIgnoredHangup(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", "-c", `trap "" HUP; exec "$0" train --model softmax --epochs 1000000 --out `+out, exe)
	c.Env = append(os.Environ(), "LOCUS_TEST_CHILD=1")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	checkpoints := func() int {
		found, _ := filepath.Glob(filepath.Join(out, "checkpoints", "checkpoint-*"))
		return len(found)
	}
	eventually(t, "a checkpoint", func() bool { return checkpoints() > 0 })
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(out, "checkpoints", "checkpoint-00000001")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	eventually(t, "another checkpoint", func() bool { return checkpoints() > 0 })
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(c.Wait()); got != ExitTerminated {
		t.Errorf("exit code %d", got)
	}
}

func TestInterruptBeforeAnything(t *testing.T) {
	c, _, errs := child(t, "train", "--epochs", "1000000", "--out", "none")
	var out testio.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first line", func() bool { return strings.Contains(out.String(), "Training") })
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(c.Wait()); got != ExitInterrupted || !strings.Contains(errs.String(), "nothing was kept") {
		t.Errorf("exit code %d, %q", got, errs)
	}
}

func TestInterruptWatch(t *testing.T) {
	c, _, errs := child(t, "devices", "--watch", "--json", "--every", "20ms")
	var out testio.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second look", func() bool { return strings.Count(out.String(), "\n") >= 2 })
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(c.Wait()); got != ExitInterrupted || errs.Len() > 0 {
		t.Errorf("exit code %d, %q", got, errs)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, l := range lines {
		var v struct{ Devices []any }
		parse(t, l, &v)
	}
}

// withoutProgress leaves out lines of progress, which a slow machine prints.
func withoutProgress(s string) string {
	return regexp.MustCompile(`(?m)^epoch .*\n`).ReplaceAllString(s, "")
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full here: %v", err)
	}
	defer full.Close()
	for _, args := range []string{"devices", "devices --json", "--help", "--version", "doctor", "tour", "completion bash", "train --out none --epochs 1 --limit 64"} {
		c, _, errs := child(t, strings.Fields(args)...)
		c.Stdout = full
		if code := exitCode(c.Run()); code != ExitFailure || !strings.Contains(errs.String(), "no space left on device") || strings.Count(withoutProgress(errs.String()), "\n") != 1 {
			t.Errorf("locus %s: exit code %d, %q", args, code, errs)
		}
	}
}

// A limit on the size of files stands for a disk that fills up while weights are
// written: the process is told so, and nothing half-written gets the name.
func TestFilesTooLarge(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -f 8; exec "$0" train --epochs 1 --checkpoints none --out `+dir+"/run", exe)
	c.Env = append(os.Environ(), "LOCUS_TEST_CHILD=1")
	var errs bytes.Buffer
	c.Stderr = &errs
	if code := exitCode(c.Run()); code != ExitFailure || !strings.Contains(errs.String(), "too large") || strings.Contains(errs.String(), "goroutine") {
		t.Errorf("exit code %d, %s", code, &errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "run", "weights.safetensors")); err == nil {
		t.Error("half a file of weights has its name")
	}
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := filepath.Join(t.TempDir(), "secret.safetensors")
	if err := os.WriteFile(path, []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"inspect", "predict"} {
		if r := call("80", command, path); r.code != ExitFailure || !strings.Contains(r.err, "permission denied") {
			t.Errorf("%s: %+v", command, r)
		}
	}
}
