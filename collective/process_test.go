//go:build unix

package collective_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusml/locus/internal/testio"
)

// process is a rank in a process of its own.
type process struct {
	cmd  *exec.Cmd
	out  *testio.Buffer
	done chan error
}

// startRanks starts processes that play a role, with the variables of a launcher.
func startRanks(t *testing.T, role string, size int, env ...string) []*process {
	t.Helper()
	host, port, err := net.SplitHostPort(free(t))
	if err != nil {
		t.Fatal(err)
	}
	ranks := make([]*process, size)
	for r := range ranks {
		p := &process{cmd: exec.Command(os.Args[0]), out: &testio.Buffer{}, done: make(chan error, 1)}
		p.cmd.Env = append(append(os.Environ(), "LOCUS_TEST_ROLE="+role, "RANK="+strconv.Itoa(r), "WORLD_SIZE="+strconv.Itoa(size),
			"MASTER_ADDR="+host, "MASTER_PORT="+port, "LOCUS_TOKEN=secret", "GOMAXPROCS=2"), env...)
		p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { p.done <- p.cmd.Wait() }()
		t.Cleanup(func() { p.cmd.Process.Kill() })
		ranks[r] = p
	}
	return ranks
}

// end waits until the process ends.
func (p *process) end(within time.Duration) (string, error) {
	select {
	case err := <-p.done:
		return p.out.String(), err
	case <-time.After(within):
		p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines
		time.Sleep(200 * time.Millisecond)
		return p.out.String(), fmt.Errorf("it hangs")
	}
}

func (p *process) says(text string, within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if strings.Contains(p.out.String(), text) {
			return true
		}
	}
	return false
}

// kill ends or stops a rank at a random moment. The others stop in time and name it.
func kill(t *testing.T, ranks []*process, victim int, stop bool) {
	t.Helper()
	for r, p := range ranks {
		if !p.says("READY", time.Minute) {
			t.Fatalf("rank %d does not begin:\n%s", r, p.out)
		}
	}
	time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
	v := ranks[victim].cmd.Process
	if stop {
		v.Signal(syscall.SIGSTOP)
		defer v.Kill()
	} else {
		v.Kill()
	}
	started := time.Now()
	for r, p := range ranks {
		if r == victim {
			continue
		}
		out, err := p.end(30 * time.Second)
		if err != nil {
			t.Errorf("rank %d, after rank %d of %d was stopped (%v): %v\n%s", r, victim, len(ranks), stop, err, out)
			continue
		}
		if !strings.Contains(out, fmt.Sprintf("FAULT rank=%d host=", victim)) || !strings.Contains(out, "all-reduce") && victim != 0 {
			t.Errorf("rank %d does not name rank %d and the collective:\n%s", r, victim, out)
		}
	}
	if d := time.Since(started); d > 12*time.Second {
		t.Errorf("it took %v", d)
	}
}

// A rank dies or stops at a random moment, again and again: LOCUS_TEST_KILLS times, else a few.
func TestKill(t *testing.T) {
	times := 4
	if s := os.Getenv("LOCUS_TEST_KILLS"); s != "" {
		var err error
		if times, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() {
		times = 2
	}
	for i := range times {
		size := 2 + rand.IntN(3)
		victim, stop := rand.IntN(size), i%2 == 1
		env := []string{"LOCUS_TEST_TCP=", "LOCUS_TEST_TCP=1"}[i/2%2]
		t.Run(fmt.Sprintf("%d of %d, stop %v, %s", victim, size, stop, env), func(t *testing.T) {
			kill(t, startRanks(t, "endless", size, env), victim, stop)
		})
	}
}

// Ranks in processes of their own pass the suite, and those of different programs get the
// difference.
func TestProcesses(t *testing.T) {
	for _, env := range []string{"LOCUS_TEST_TCP=", "LOCUS_TEST_TCP=1"} {
		for r, p := range startRanks(t, "conformance", 3, "LOCUS_TEST_ENGINE=ring", env) {
			out, err := p.end(2 * time.Minute)
			if err != nil || r == 0 && !strings.Contains(out, "all is well") {
				t.Errorf("rank %d, %s: %v\n%s", r, env, err, out)
			}
		}
	}
	for r, p := range startRanks(t, "mismatch", 2) {
		if out, err := p.end(time.Minute); err != nil || !strings.Contains(out, "DIFFERENCE SHOWN") {
			t.Errorf("rank %d: %v\n%s", r, err, out)
		}
	}
}
