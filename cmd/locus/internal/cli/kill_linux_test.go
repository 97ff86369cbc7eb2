package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusml/locus/cmd/locus/internal/inspect"
)

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, l := range lists {
		b, _ := os.ReadFile(l) // of a thread that has ended meanwhile there is none
		for _, f := range strings.Fields(string(b)) {
			if p, err := strconv.Atoi(f); err == nil {
				pids = append(pids, p)
			}
		}
	}
	return pids
}

// A rank is killed or stopped at a random moment of a training run, again and again
// (LOCUS_TEST_KILLS times, else a few): the launcher ends in time with a code that is not
// zero, the checkpoints are whole, and the run goes on from them with any number of ranks.
func TestTrainKilled(t *testing.T) {
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		t.Skipf("not run: this kernel does not list the children of a process: %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	times, stops := 2, false // it takes half a minute to find out that a rank says nothing
	if s := os.Getenv("LOCUS_TEST_KILLS"); s != "" {
		if times, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
		stops = true
	}
	t.Setenv("LOCUS_MPI", "off")
	t.Setenv("LOCUS_THREADS", "1")
	out := filepath.Join(t.TempDir(), "run")
	folder := filepath.Join(out, "checkpoints")
	run := func(ranks int, more ...string) []string {
		return append([]string{"launch", "-n", fmt.Sprint(ranks), "--", exe, "train", "--model", "softmax", "--limit", "300", "--device", "cpu", "--out", out, "--resume"}, more...)
	}
	epoch := func() int {
		t.Helper()
		f, err := inspect.Look(folder, false, 0)
		if err != nil {
			t.Fatalf("the checkpoints: %v", err)
		}
		var state struct{ Epoch int }
		parse(t, string(f.State), &state)
		return state.Epoch
	}
	for i := range times {
		ranks := 2 + rand.IntN(2)
		before := 0
		if i > 0 {
			before = epoch()
		}
		c, said, errs := child(t, run(ranks, "--epochs", "1000000")...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a checkpoint of this run", func() bool {
			if found, _ := filepath.Glob(filepath.Join(folder, "checkpoint-*")); len(found) == 0 {
				return false
			}
			return epoch() > before && len(childrenOf(c.Process.Pid)) == ranks
		})
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		pids := childrenOf(c.Process.Pid)
		if len(pids) != ranks {
			t.Fatalf("%d ranks of %d are there\n%s", len(pids), ranks, errs)
		}
		victim, signal := pids[rand.IntN(ranks)], syscall.SIGKILL
		if stops && i%2 == 1 {
			signal = syscall.SIGSTOP
		}
		what := fmt.Sprintf("%d: %v of one of %d ranks", i, signal, ranks)
		if err := syscall.Kill(victim, signal); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case err := <-ended:
			if code := exitCode(err); code == 0 {
				t.Errorf("%s: exit code 0\n%s%s", what, said, errs)
			}
		case <-time.After(time.Minute):
			_ = syscall.Kill(victim, syscall.SIGKILL)
			c.Process.Kill()
			t.Fatalf("%s: it hangs\n%s%s", what, said, errs)
		}
		t.Logf("%s, after epoch %d: %s", what, epoch(), strings.SplitN(errs.String(), "\n", 2)[0])
	}
	last := fmt.Sprint(epoch() + 1)
	c, said, errs := child(t, run(3, "--epochs", last)...)
	if code := exitCode(c.Run()); code != 0 || !strings.Contains(said.String(), "of "+last+")") {
		t.Errorf("the end: exit code %d\n%s%s", code, said, errs)
	}
}
