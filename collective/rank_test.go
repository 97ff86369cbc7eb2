//go:build unix

package collective_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
	"github.com/locusml/locus/internal/ring"
	"github.com/locusml/locus/internal/testio"
)

// TestMain makes the test's own binary the program of a rank where a launcher started it.
func TestMain(m *testing.M) {
	if role := os.Getenv("LOCUS_TEST_ROLE"); role != "" {
		ring.Sharing = os.Getenv("LOCUS_TEST_TCP") == ""
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is what a rank does.
func play(role string) error {
	options := []collective.Option{collective.JoinWithin(30 * time.Second), collective.DeadAfter(2 * time.Second), collective.Timeout(20 * time.Second)}
	if role == "conformance" {
		options = []collective.Option{collective.JoinWithin(time.Minute)}
	}
	g, err := collective.Join(ctx, options...)
	if err != nil {
		return err
	}
	defer g.Close()
	switch role {
	case "conformance":
		if want := os.Getenv("LOCUS_TEST_ENGINE"); g.Engine(locus.CPU()) != want {
			return fmt.Errorf("the engine is %s, not %s", g.Engine(locus.CPU()), want)
		}
		if err := recovers(); err != nil {
			return err
		}
		if err := collectivetest.Run(context.Background(), g, collectivetest.Config{Short: true, Large: 30_001}); err != nil {
			return err
		}
		if g.Rank() == 0 {
			fmt.Println("all is well")
		}
		return nil
	case "split": // as rows and columns
		if err := rowsAndColumns(g); err != nil {
			return err
		}
		if g.Rank() == 0 {
			fmt.Println("all is well")
		}
		return nil
	case "cards": // all ranks on one GPU
		d := locus.GPU(0)
		if err := collectivetest.Run(context.Background(), g, collectivetest.Config{Devices: []locus.Device{d}, Short: true, Large: 30_001}); err != nil {
			return err
		}
		if e := g.Engine(d); e != "nccl" {
			return fmt.Errorf("the engine is %s", e)
		}
		if err := compiledAsEager(g, d); err != nil {
			return fmt.Errorf("compiled: %w", err)
		}
		if err := speed(g, d, func(f string, a ...any) { fmt.Printf(f+"\n", a...) }); err != nil {
			return err
		}
		if g.Rank() == 0 {
			fmt.Println("all is well")
		}
		return nil
	case "endless": // until somebody is killed
		d := locus.CPU()
		if name := os.Getenv("LOCUS_TEST_DEVICE"); name != "" {
			if d, err = locus.ParseDevice(name); err != nil {
				return err
			}
		}
		for i := 0; ; i++ {
			x := d.Ones(1 + i%3*40_000)
			y, err := g.AllReduce(ctx, x, collective.Sum).Wait()
			if err == nil && d.IsGPU() {
				if err := d.Synchronize(); err != nil {
					return err
				}
			}
			if err != nil {
				var f *collective.Fault
				if !errors.As(err, &f) {
					return fmt.Errorf("not a fault: %w", err)
				}
				fmt.Printf("FAULT rank=%d host=%q timeout=%v text=%s\n", f.Rank, f.Host, errors.Is(err, collective.ErrTimeout), strings.ReplaceAll(err.Error(), "\n", " "))
				return nil
			}
			x.Free()
			y.Free()
			if i == 20 {
				fmt.Printf("READY rank=%d pid=%d\n", g.Rank(), os.Getpid())
			}
		}
	case "mismatch":
		_, err := g.AllReduce(ctx, locus.CPU().Ones(3+g.Rank()), collective.Sum).Wait()
		if err := want(err, collective.ErrMismatch, "(3,)", "(4,)"); err != nil {
			return err
		}
		fmt.Println("DIFFERENCE SHOWN")
		return nil
	}
	return errors.New("no such role")
}

// recovers checks that a fault in Go code is still a panic, which libraries that take signals
// over would make a crash.
func recovers() (err error) {
	defer func() {
		if recover() == nil {
			err = errors.New("no panic")
		}
	}()
	var p *int
	*p = 1
	return nil
}

// mpirun starts ranks that play a role.
func mpirun(t *testing.T, command, role string, size int, env ...string) (string, error) {
	t.Helper()
	args := []string{"-np", fmt.Sprint(size)}
	if strings.Contains(command, "openmpi") {
		args = append([]string{"--allow-run-as-root", "--oversubscribe"}, args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, append(args, os.Args[0])...)
	cmd.Env = append(append(os.Environ(), "LOCUS_TEST_ROLE="+role, "GOMAXPROCS=2"), env...)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it hangs: %w", ctx.Err())
	}
	return out.String(), err
}

// both are the makes of MPI that are tried, as Debian names their commands.
var both = []string{"mpirun.openmpi", "mpirun.mpich"}

func TestMPI(t *testing.T) {
	for _, command := range both {
		t.Run(command, func(t *testing.T) {
			path, err := exec.LookPath(command)
			if err != nil {
				t.Skipf("not run: %v (Debian: apt-get install openmpi-bin mpich)", err)
			}
			for _, size := range []int{2, 3, 4} {
				if size == 4 && strings.Contains(command, "mpich") {
					continue // its ranks wait by spinning, which takes a core each
				}
				t.Run(fmt.Sprint(size), func(t *testing.T) {
					out, err := mpirun(t, path, "conformance", size, "LOCUS_TEST_ENGINE=mpi")
					if err != nil || !strings.Contains(out, "all is well") {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
			t.Run("mismatch", func(t *testing.T) {
				// mpirun counts it as a failure that a rank ends without finalizing.
				if out, _ := mpirun(t, path, "mismatch", 2); !strings.Contains(out, "DIFFERENCE SHOWN") || strings.Contains(out, "the error") {
					t.Error(out)
				}
			})
			t.Run("split", func(t *testing.T) {
				out, err := mpirun(t, path, "split", 4)
				if err != nil || !strings.Contains(out, "all is well") {
					t.Errorf("%v\n%s", err, out)
				}
			})
			t.Run("ring", func(t *testing.T) {
				out, err := mpirun(t, path, "conformance", 2, "LOCUS_TEST_ENGINE=ring", "LOCUS_COLLECTIVE=ring")
				if err != nil || !strings.Contains(out, "all is well") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		})
	}
}

// A rank under mpirun dies or stops: mpirun ends, and nobody is left behind.
func TestMPIKill(t *testing.T) {
	for _, command := range both {
		for _, stop := range []bool{false, true} {
			t.Run(fmt.Sprint(command, ", stop ", stop), func(t *testing.T) {
				path, err := exec.LookPath(command)
				if err != nil {
					t.Skipf("not run: %v (Debian: apt-get install openmpi-bin mpich)", err)
				}
				args := []string{"-np", "2", os.Args[0]}
				if strings.Contains(command, "openmpi") {
					args = append([]string{"--allow-run-as-root", "--oversubscribe"}, args...)
				}
				p := &process{cmd: exec.Command(path, args...), out: &testio.Buffer{}, done: make(chan error, 1)}
				p.cmd.Env = append(os.Environ(), "LOCUS_TEST_ROLE=endless", "GOMAXPROCS=2")
				p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
				p.cmd.WaitDelay = time.Second
				if err := p.cmd.Start(); err != nil {
					t.Fatal(err)
				}
				go func() { p.done <- p.cmd.Wait() }()
				pids := make([]int, 2)
				for r := range pids {
					mark := fmt.Sprintf("READY rank=%d pid=", r)
					if !p.says(mark, time.Minute) {
						p.cmd.Process.Kill()
						t.Fatalf("rank %d does not begin:\n%s", r, p.out)
					}
					_, rest, _ := strings.Cut(p.out.String(), mark)
					fmt.Sscan(rest, &pids[r])
				}
				signal := syscall.SIGKILL
				if stop {
					signal = syscall.SIGSTOP
				}
				defer syscall.Kill(pids[1], syscall.SIGKILL)
				if err := syscall.Kill(pids[1], signal); err != nil {
					t.Fatal(err)
				}
				select {
				case <-p.done:
				case <-time.After(time.Minute):
					p.cmd.Process.Kill()
					t.Fatalf("it hangs:\n%s", p.out)
				}
				// mpirun may be faster than the rank that is left, unless it does not see anything.
				if out := p.out.String(); stop && !strings.Contains(out, "FAULT rank=1 host=") {
					t.Errorf("rank 0 does not name rank 1:\n%s", out)
				}
			})
		}
	}
}

// A rank that gives up ends the group for all, who learn why.
func TestAbort(t *testing.T) {
	groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU()})
	if err != nil {
		t.Fatal(err)
	}
	p := groups[0].AllReduce(t.Context(), locus.CPU().Ones(2), collective.Sum)
	groups[1].Abort(errors.New("out of luck"))
	groups[1].Abort(nil) // does nothing
	var f *collective.Fault
	if _, err := p.Wait(); !errors.Is(err, collective.ErrRank) || !errors.As(err, &f) || f.Rank != 1 || !strings.Contains(err.Error(), "out of luck") {
		t.Error(err)
	}
	if err := groups[1].Err(); !errors.Is(err, collective.ErrRank) {
		t.Error(err)
	}
}
