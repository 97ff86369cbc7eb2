// Package launch starts the ranks of a program, on this machine and on others over ssh, and
// looks after them: their output, their end, and starting all again when one fails.
package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Spec says what to start.
type Spec struct {
	Command  []string
	Hosts    []Host        // where; nil: this machine alone
	Ranks    int           // on this machine, where Hosts is nil
	Nodes    int           // machines that each run a launcher of their own; 0 is 1
	Node     int           // which of them this is
	Master   string        // host:port of rank 0; "" to choose
	Token    string        // of the ranks; "" to choose
	Restarts int           // how often all are started again
	Grace    time.Duration // how long ranks have to end by themselves
	Env      []string      // as os.Environ
	SSH      []string      // the command that reaches another machine; nil: ssh
	Dir      string        // of the command on other machines; "" for this one's
	Out, Err io.Writer
	Log      func(rank int) (io.WriteCloser, error) // where a rank's output goes as well; may be nil
	Say      func(format string, args ...any)       // tells the user what happens
}

// Failure is the error of ranks that have failed.
type Failure struct {
	Rank int
	Host string
	Code int // as shells have it: 128 and the signal's number for one that was killed
	Err  error
}

func (f *Failure) Error() string {
	where := ""
	if f.Host != "" {
		where = " on " + f.Host
	}
	return fmt.Sprintf("rank %d%s: %v", f.Rank, where, f.Err)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Run starts the ranks and waits for them. If one fails, the others are ended and all are
// started again, up to the limit. The error is a *[Failure], of the rank that failed first,
// or the context's.
func Run(ctx context.Context, s Spec) error {
	// Ranks end with the thread that started them, where the system has that: it must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for attempt := 0; ; attempt++ {
		err := s.once(ctx, attempt)
		var f *Failure
		if err == nil || ctx.Err() != nil || !errors.As(err, &f) || attempt >= s.Restarts {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		s.Say("%v; starting all ranks again (%d of %d)", err, attempt+1, s.Restarts)
	}
}

// rank is one process.
type rank struct {
	number int
	host   string // "" for this machine
	cmd    *exec.Cmd
	cores  []int     // that it may use, on this machine; nil: all
	stdin  io.Closer // of an ssh: its end ends the rank
	log    io.WriteCloser
	lines  [2]*lines
}

// end is how a rank ended.
type end struct {
	*rank
	err error
}

// once starts all ranks and waits for their end.
func (s *Spec) once(ctx context.Context, attempt int) error {
	ranks, err := s.prepare(attempt)
	if err != nil {
		return err
	}
	ends := make(chan end, len(ranks))
	running := map[*rank]bool{}
	var failure *Failure
	codes := map[int]bool{} // that ranks have failed with
	fail := func(r *rank, err error) (another *Failure) {
		if err == nil {
			return nil
		}
		f := &Failure{r.number, r.host, exitCode(err), err}
		if failure == nil {
			failure = f
		}
		if codes[f.Code] {
			return nil
		}
		codes[f.Code] = true
		return f
	}
	for _, r := range ranks {
		if err := startOn(r.cores, r.cmd.Start); err != nil {
			fail(r, err)
			break
		}
		running[r] = true
		go func() {
			err := r.cmd.Wait()
			for _, l := range r.lines {
				l.flush()
			}
			if r.log != nil {
				r.log.Close()
			}
			ends <- end{r, err}
		}()
	}
	// First ranks end by themselves, then they are asked to, then they are ended.
	var limit <-chan time.Time
	step := 0
	hurry := func() {
		switch step++; {
		case step == 1 && ctx.Err() == nil && failure != nil:
			limit = time.After(s.Grace) // they find out by themselves that a rank is gone
		case step <= 2:
			step = 2
			for r := range running {
				r.ask(ctx)
			}
			limit = time.After(s.Grace)
		default:
			for r := range running {
				r.kill()
			}
			limit = nil
		}
	}
	done := ctx.Done()
	if failure != nil {
		hurry()
	}
	for len(running) > 0 {
		select {
		case e := <-ends:
			delete(running, e.rank)
			had := failure != nil
			f := fail(e.rank, e.err)
			switch {
			case f == nil || ctx.Err() != nil:
			case !had && len(running) > 0:
				s.Say("%v; waiting for the others", f)
				hurry()
			case had && step < 2: // one that was not asked to end: this may be the cause, and the first one its news
				s.Say("%v", f)
			}
		case <-done:
			done = nil
			hurry()
		case <-limit:
			hurry()
		}
	}
	if failure != nil {
		return failure
	}
	return nil
}

// prepare makes the processes of all ranks.
func (s *Spec) prepare(attempt int) ([]*rank, error) {
	hosts := s.Hosts
	if hosts == nil {
		hosts = []Host{{Slots: s.Ranks}}
	}
	local := 0
	for _, h := range hosts {
		local += h.Slots
	}
	nodes := max(s.Nodes, 1)
	first, size := s.Node*local, nodes*local
	token := s.Token
	if token == "" {
		token = rand.Text() // another one each time: a rank of an earlier attempt stays out
	}
	master, err := s.master(hosts)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address of rank 0: %w", master, err)
	}
	out, errs := &shared{w: s.Out}, &shared{w: s.Err}
	var ranks []*rank
	for _, h := range hosts {
		cores := s.cores(h)
		for l := range h.Slots {
			n := first + len(ranks)
			vars := []string{"RANK=" + strconv.Itoa(n), "WORLD_SIZE=" + strconv.Itoa(size), "LOCAL_RANK=" + strconv.Itoa(l), "LOCAL_WORLD_SIZE=" + strconv.Itoa(h.Slots),
				"MASTER_ADDR=" + host, "MASTER_PORT=" + port, "LOCUS_RESTART=" + strconv.Itoa(attempt)}
			r := &rank{number: n, host: h.Name}
			if h.Name == "" {
				r.cmd = exec.Command(s.Command[0], s.Command[1:]...)
				r.cmd.Env = append(append(append([]string{}, s.Env...), vars...), "LOCUS_TOKEN="+token)
				if value(s.Env, "LOCUS_THREADS") == "" {
					r.cmd.Env = append(r.cmd.Env, "LOCUS_THREADS="+strconv.Itoa(max(1, runtime.GOMAXPROCS(0)/h.Slots)))
				}
				if apart(r.cmd); cores != nil {
					r.cores = cores[l]
				}
			} else if err := r.remote(s, h, vars, token); err != nil {
				return nil, err
			}
			if s.Log != nil {
				if r.log, err = s.Log(n); err != nil {
					return nil, err
				}
			}
			prefix := fmt.Sprintf("[%d] ", n)
			for i, w := range []*shared{out, errs} {
				r.lines[i] = &lines{to: w, prefix: prefix, log: r.log}
			}
			r.cmd.Stdout, r.cmd.Stderr = r.lines[0], r.lines[1]
			r.cmd.WaitDelay = 5 * time.Second // a grandchild may keep the pipes open
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}

// cores returns those of each rank of this machine. Nil, and any for all, where there are
// fewer of them than ranks, or than the threads that the ranks were told to use.
func (s *Spec) cores(h Host) [][]int {
	if h.Name != "" || h.Slots < 2 {
		return nil
	}
	cores := shares(h.Slots)
	if cores == nil {
		return nil
	}
	if n, err := strconv.Atoi(strings.TrimSpace(value(s.Env, "LOCUS_THREADS"))); err == nil && n > len(cores[0]) {
		return nil
	}
	return cores
}

// master returns the address of rank 0: a free port of this machine, or a port of the first
// host that is likely to be free.
func (s *Spec) master(hosts []Host) (string, error) {
	if s.Master != "" {
		return s.Master, nil
	}
	if name := hosts[0].Name; name != "" {
		var b [2]byte
		rand.Read(b[:])
		return net.JoinHostPort(name, strconv.Itoa(20000+(int(b[0])<<8|int(b[1]))%20000)), nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// value returns what the environment has by a name, or "".
func value(env []string, name string) (v string) {
	for _, e := range env {
		if k, is, ok := strings.Cut(e, "="); ok && k == name {
			v = is // the last one counts
		}
	}
	return v
}

// ask asks a rank to end, as the signal that ended the launcher did.
func (r *rank) ask(ctx context.Context) {
	if r.stdin != nil {
		r.stdin.Close()
		return
	}
	interrupt(r.cmd.Process, ctx.Err() != nil)
}

func (r *rank) kill() {
	if r.stdin != nil {
		r.stdin.Close()
	}
	kill(r.cmd.Process)
}

// exitCode returns the code of an ended process, as shells have it.
func exitCode(err error) int {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return 127
		}
		return 1
	}
	if n := signalOf(e); n > 0 {
		return 128 + n
	}
	return e.ExitCode()
}

// shared is a writer of several ranks, for a line at a time.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *shared) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

// lines puts a prefix before each line. A line that does not end is passed on when it is long.
type lines struct {
	to     *shared
	prefix string
	log    io.Writer
	mu     sync.Mutex
	part   []byte
}

const longLine = 64 << 10

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		if _, err := l.log.Write(b); err != nil {
			return 0, err
		}
	}
	for i, c := range b {
		l.part = append(l.part, c)
		if c == '\n' || len(l.part) >= longLine {
			if c != '\n' {
				l.part = append(l.part, '\n')
			}
			if _, err := l.to.Write(append([]byte(l.prefix), l.part...)); err != nil {
				return i, err
			}
			l.part = l.part[:0]
		}
	}
	return len(b), nil
}

// flush writes what is left of a last line.
func (l *lines) flush() {
	l.mu.Lock()
	rest := len(l.part) > 0
	log := l.log
	l.log = nil
	l.mu.Unlock()
	if rest {
		_, _ = l.Write([]byte{'\n'}) // there is nobody to tell
	}
	l.mu.Lock()
	l.log = log
	l.mu.Unlock()
}
