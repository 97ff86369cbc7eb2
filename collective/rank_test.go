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
	case "messages": // between ranks on one GPU, by NCCL
		d := locus.GPU(0)
		if err := collectivetest.Messages(context.Background(), g, d, 1, true); err != nil {
			return err
		}
		if err := meetAll(g, d); err != nil {
			return err
		}
		var err error
		sent, by := byNCCL(func() {
			err = passOn(g, d.Ones(25_000_000))
			time.Sleep(50 * time.Millisecond) // it is noted when the card has done it
		})
		if err != nil {
			return err
		}
		if sent != 1 || by != 1 {
			return fmt.Errorf("%d of %d messages by NCCL", by, sent)
		}
		if err := speedOfMessages(g, d); err != nil {
			return err
		}
		if g.Rank() == 0 {
			fmt.Println("all is well")
		}
		return nil
	case "passing": // messages until somebody is killed
		d, err := locus.ParseDevice(os.Getenv("LOCUS_TEST_DEVICE"))
		if err != nil {
			return err
		}
		if _, err := g.AllReduce(ctx, d.Ones(1), collective.Sum).Wait(); err != nil {
			return err
		}
		for i := 0; ; i++ {
			x := d.Ones(50_000 << (i % 6))
			if err = passOn(g, x); err != nil {
				return told(err)
			}
			if err := d.Synchronize(); err != nil {
				return err
			}
			x.Free()
			if i == 20 {
				fmt.Printf("READY rank=%d pid=%d\n", g.Rank(), os.Getpid())
			}
		}
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
				return told(err)
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

// told prints the fault that a rank was told of.
func told(err error) error {
	var f *collective.Fault
	if !errors.As(err, &f) {
		return fmt.Errorf("not a fault: %w", err)
	}
	fmt.Printf("FAULT rank=%d host=%q timeout=%v text=%s\n", f.Rank, f.Host, errors.Is(err, collective.ErrTimeout), strings.ReplaceAll(err.Error(), "\n", " "))
	return nil
}

// passOn sends a tensor to the next rank and takes one from the rank before.
func passOn(g *collective.Group, x *locus.Tensor) error {
	sent := g.Send(ctx, x, (g.Rank()+1)%g.Size())
	y, err := g.Recv(ctx, x, (g.Rank()+g.Size()-1)%g.Size()).Wait()
	if err != nil {
		return err
	}
	if lo, hi := y.Min().Item(), y.Max().Item(); lo != 1 || hi != 1 {
		return fmt.Errorf("ones were sent, %v to %v have come", lo, hi)
	}
	y.Free()
	_, err = sent.Wait()
	return err
}

// meetAll has every rank send to the next, one after the other, so that all these pairs have
// their communicators.
func meetAll(g *collective.Group, d locus.Device) error {
	x := d.Ones(100_000)
	for from := range g.Size() {
		var err error
		switch to := (from + 1) % g.Size(); g.Rank() {
		case from:
			_, err = g.Send(ctx, x, to).Wait()
		case to:
			_, err = g.Recv(ctx, x, from).Wait()
		}
		if err == nil {
			err = g.Barrier(ctx)
		}
		if err == nil {
			err = d.Synchronize()
		}
		if err != nil {
			return err
		}
	}
	return g.Barrier(ctx)
}

// speedOfMessages measures 100 MB from each rank to the next, all at a time.
func speedOfMessages(g *collective.Group, d locus.Device) error {
	x, best := d.Ones(25_000_000), time.Hour
	for range 8 {
		if err := errors.Join(d.Synchronize(), g.Barrier(ctx)); err != nil {
			return err
		}
		started := time.Now()
		sent := g.Send(ctx, x, (g.Rank()+1)%g.Size())
		y, err := g.Recv(ctx, x, (g.Rank()+g.Size()-1)%g.Size()).Wait()
		if err == nil {
			_, err = sent.Wait()
		}
		if err = errors.Join(err, d.Synchronize()); err != nil {
			return err
		}
		best = min(best, time.Since(started))
		y.Free()
	}
	fmt.Printf("100 MB from each of %d ranks to the next, %s: %v\n", g.Size(), d, best)
	return nil
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
