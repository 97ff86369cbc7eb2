//go:build unix

package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/testio"
)

// TestMain makes the test's own binary the program of a rank.
func TestMain(m *testing.M) {
	if os.Getenv("LOCUS_TEST_ROLE") != "" {
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play sums the numbers of all ranks.
func play() error {
	ctx := context.Background()
	g, err := collective.Join(ctx, collective.DeadAfter(2*time.Second))
	if err != nil {
		return err
	}
	defer g.Close()
	if os.Getenv("LOCUS_TEST_ROLE") == "crash" && os.Getenv("LOCUS_RESTART") != "2" {
		if g.Rank() == 1 {
			os.Exit(7)
		}
	}
	for i := 0; os.Getenv("LOCUS_TEST_ROLE") == "endless"; i++ {
		if _, err := g.AllReduce(ctx, locus.Ones(1000), collective.Sum).Wait(); err != nil {
			return err
		}
		if i == 20 {
			fmt.Println("READY")
		}
	}
	sum, err := g.AllReduce(ctx, locus.From([]float32{float32(g.Rank() + 1)}), collective.Sum).Wait()
	if err != nil {
		return err
	}
	fmt.Printf("the sum is %v\n", sum.Item())
	return nil
}

// result is what a launch has printed.
type result struct {
	out, errs testio.Buffer
	said      testio.Buffer
}

func (r *result) spec(n int, command ...string) Spec {
	return Spec{Command: command, Ranks: n, Grace: 2 * time.Second, Env: os.Environ(), Out: &r.out, Err: &r.errs,
		Say: func(f string, a ...any) { fmt.Fprintf(&r.said, f+"\n", a...) }}
}

func sorted(s string) []string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	slices.Sort(l)
	return l
}

func TestVariablesAndPrefixes(t *testing.T) {
	var r result
	s := r.spec(3, "sh", "-c", `echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $MASTER_ADDR, restart $LOCUS_RESTART"; echo bad >&2; printf "no end $LOCUS_THREADS"; test -n "$MASTER_PORT" && test -n "$LOCUS_TOKEN"`)
	folder := t.TempDir()
	s.Log = func(rank int) (io.WriteCloser, error) {
		return os.Create(filepath.Join(folder, strconv.Itoa(rank)))
	}
	if err := Run(context.Background(), s); err != nil {
		t.Fatal(err, r.errs.String())
	}
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprintf("[%d] %d of 3, %d of 3, 127.0.0.1, restart 0", i, i, i), fmt.Sprintf("[%d] no end %d", i, max(1, runtime.GOMAXPROCS(0)/3)))
	}
	if got := sorted(r.out.String()); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := sorted(r.errs.String()); !slices.Equal(got, []string{"[0] bad", "[1] bad", "[2] bad"}) {
		t.Errorf("%q", got)
	}
	if b, err := os.ReadFile(filepath.Join(folder, "2")); err != nil || !strings.Contains(string(b), "2 of 3") || !strings.Contains(string(b), "bad") {
		t.Errorf("the log of rank 2 is %q, %v", b, err)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		script string
		rank   int
		code   int
	}{
		{`test $RANK != 1 || exit 5; sleep 0.2`, 1, 5},
		{`test $RANK != 2 || kill -9 $$; exec sleep 60`, 2, 137},
		{`test $RANK != 0 || exit 3; trap "" TERM; sleep 60 & wait; sleep 60`, 0, 3}, // does not want to end
	} {
		var r result
		s := r.spec(3, "sh", "-c", c.script)
		s.Grace = 300 * time.Millisecond
		started := time.Now()
		err := Run(context.Background(), s)
		var f *Failure
		if !errors.As(err, &f) || f.Rank != c.rank || f.Code != c.code {
			t.Errorf("%s: %+v, %v", c.script, f, err)
		}
		if d := time.Since(started); d > 30*time.Second {
			t.Errorf("%s: took %v", c.script, d)
		}
	}
	var r result
	var f *Failure
	if err := Run(context.Background(), r.spec(2, "/no/such/program")); !errors.As(err, &f) || f.Code != 127 {
		t.Errorf("%+v", f)
	}
}

// All ranks are started again, with a token and a port of their own each time.
func TestRestarts(t *testing.T) {
	var r result
	folder := t.TempDir()
	s := r.spec(2, "sh", "-c", `echo "$LOCUS_TOKEN" > `+folder+`/token.$LOCUS_RESTART.$RANK; test $LOCUS_RESTART = 2 || test $RANK = 0 || exit 4`)
	s.Restarts = 1
	var f *Failure
	if err := Run(context.Background(), s); !errors.As(err, &f) || f.Code != 4 {
		t.Errorf("after one restart: %v", err)
	}
	s.Restarts = 3
	if err := Run(context.Background(), s); err != nil {
		t.Errorf("after two restarts: %v", err)
	}
	if n := strings.Count(r.said.String(), "again"); n != 3 {
		t.Errorf("said %q", r.said.String())
	}
	read := func(attempt, rank int) string {
		b, err := os.ReadFile(fmt.Sprintf("%s/token.%d.%d", folder, attempt, rank))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if read(2, 0) != read(2, 1) || read(1, 1) == read(2, 1) || len(read(2, 0)) < 20 {
		t.Error("tokens:", read(1, 1), read(2, 0), read(2, 1))
	}
}

// The end of the context ends all ranks, and their children.
func TestCancel(t *testing.T) {
	for _, script := range []string{`exec sleep 61`, `trap "exit 0" INT; sleep 61 & wait`, `trap "" INT TERM; sleep 61; sleep 61`} {
		var r result
		s := r.spec(2, "sh", "-c", `echo up; `+script)
		s.Grace = 300 * time.Millisecond
		s.Restarts = 5
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("enough")
		go func() {
			for strings.Count(r.out.String(), "up") < 2 {
				time.Sleep(time.Millisecond)
			}
			cancel(cause)
		}()
		started := time.Now()
		if err := Run(ctx, s); !errors.Is(err, cause) {
			t.Errorf("%s: %v", script, err)
		}
		if d := time.Since(started); d > 30*time.Second {
			t.Errorf("%s: took %v", script, d)
		}
	}
}

// Ranks of a real program find each other; when one crashes, all are started again and it
// goes well the third time.
func TestRanks(t *testing.T) {
	for role, restarts := range map[string]int{"sum": 0, "crash": 2} {
		var r result
		s := r.spec(3, os.Args[0])
		s.Env = append(s.Env, "LOCUS_TEST_ROLE="+role)
		s.Restarts = restarts
		if err := Run(context.Background(), s); err != nil {
			t.Errorf("%s: %v\n%s", role, err, r.errs.String())
		}
		for i := range 3 {
			if want := fmt.Sprintf("[%d] the sum is 6\n", i); strings.Count(r.out.String(), want) != 1 {
				t.Errorf("%s: %q is not in %q", role, want, r.out.String())
			}
		}
		if role == "crash" && !strings.Contains(r.said.String(), "rank 1: exit status 7") {
			t.Errorf("said %q", r.said.String())
		}
	}
}

// Launchers on two machines, which are one here.
func TestNodes(t *testing.T) {
	var a, b result
	first, second := a.spec(2, os.Args[0]), b.spec(2, os.Args[0])
	addr, err := first.master([]Host{{}})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for i, s := range []*Spec{&first, &second} {
		s.Nodes, s.Node, s.Master, s.Token = 2, i, addr, "the same"
		s.Env = append(s.Env, "LOCUS_TEST_ROLE=sum")
		go func() { errs <- Run(context.Background(), *s) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err, a.errs.String(), b.errs.String())
		}
	}
	if !strings.Contains(b.out.String(), "[3] the sum is 10\n") {
		t.Errorf("%q", b.out.String())
	}
}

// fakeSSH is a program that runs on this machine what ssh would run on another.
func fakeSSH(t *testing.T) []string {
	path := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"ssh to $1\" >&2\nshift\nexec sh -c \"$*\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func TestHosts(t *testing.T) {
	var r result
	s := r.spec(0, os.Args[0], "an argument with 'quotes' and $RANK")
	s.Hosts = []Host{{"localhost", 2}, {"localhost", 1}}
	s.SSH = fakeSSH(t)
	t.Setenv("LOCUS_TEST_ROLE", "sum") // as if the other machine had it
	s.Env = nil
	if err := Run(context.Background(), s); err != nil {
		t.Fatal(err, r.errs.String())
	}
	if !strings.Contains(r.out.String(), "[2] the sum is 6\n") || strings.Count(r.errs.String(), "ssh to localhost") != 3 {
		t.Errorf("%q %q", r.out.String(), r.errs.String())
	}
}

// What runs on another machine ends with the launcher's connection, and the token is in no
// list of processes.
func TestHostsEnd(t *testing.T) {
	var r result
	s := r.spec(0, "sh", "-c", `echo up $$ $RANK; tr "\0" " " < /proc/$PPID/cmdline | grep -c "$LOCUS_TOKEN"; exec sleep 62`)
	s.Hosts = []Host{{"localhost", 2}}
	s.SSH = fakeSSH(t)
	s.Grace = 3 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for strings.Count(r.out.String(), "\n") < 4 { // two lines of each rank
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := Run(ctx, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, line := range sorted(r.out.String()) {
		var rank, pid, number int
		if n, _ := fmt.Sscanf(line, "[%d] up %d %d", &rank, &pid, &number); n == 3 {
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(b), ") Z ") {
					break
				}
				if time.Now().After(end) {
					t.Errorf("rank %d still runs", number)
					break
				}
			}
		}
	}
	if runtime.GOOS == "linux" && strings.Count(r.out.String(), "] 0\n") != 2 {
		t.Errorf("the token is on a command line: %q", r.out.String())
	}
}

func TestParseHosts(t *testing.T) {
	for _, c := range []struct {
		list string
		want []Host
	}{
		{"a", []Host{{"a", 1}}}, {"a:4, b:2", []Host{{"a", 4}, {"b", 2}}}, {"a,b", []Host{{"a", 1}, {"b", 1}}},
		{"", nil}, {"a:", nil}, {"a:0", nil}, {"a:x", nil}, {"-oProxyCommand=x", nil}, {"a;b", nil}, {"a,,b", nil},
	} {
		if got, err := ParseHosts(c.list); !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v, %v", c.list, got, err)
		}
	}
	got, err := ParseHostFile("# nodes\nnode1 slots=4\n\nnode2:2 # two\nnode3 max-slots=9\n")
	if want := []Host{{"node1", 4}, {"node2", 2}, {"node3", 1}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "# none\n", "a slots=x"} {
		if _, err := ParseHostFile(bad); err == nil {
			t.Errorf("%q is no host file", bad)
		}
	}
}

// The host file in deploy is one.
func TestDeployedHostFile(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/hostfile")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseHostFile(string(text)); err != nil || !slices.Equal(got, []Host{{"node1", 8}, {"node2", 8}}) {
		t.Errorf("%v, %v", got, err)
	}
}
