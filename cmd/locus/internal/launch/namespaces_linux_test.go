package launch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// namespaces makes two network namespaces with a cable between them, as two machines, and
// returns their addresses and a program that stands for ssh: it runs commands in the one
// whose address it is given.
func namespaces(t *testing.T) (addrs [2]string, ssh []string) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skipf("not run: network namespaces need root and ip (Debian: iproute2): %v", err)
	}
	names := [2]string{fmt.Sprintf("lt%da", os.Getpid()), fmt.Sprintf("lt%db", os.Getpid())}
	ip := func(args string) error {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	}
	for i, n := range names {
		if err := ip("netns add " + n); err != nil {
			t.Skipf("not run: %v", err)
		}
		t.Cleanup(func() { ip("netns del " + n) })
		addrs[i] = fmt.Sprintf("10.77.%d.%d", os.Getpid()%250, i+1)
	}
	for _, c := range []string{
		fmt.Sprintf("link add v0 netns %s type veth peer name v0 netns %s", names[0], names[1]),
		fmt.Sprintf("-n %s addr add %s/24 dev v0", names[0], addrs[0]), fmt.Sprintf("-n %s addr add %s/24 dev v0", names[1], addrs[1]),
		fmt.Sprintf("-n %s link set v0 up", names[0]), fmt.Sprintf("-n %s link set v0 up", names[1]),
		fmt.Sprintf("-n %s link set lo up", names[0]), fmt.Sprintf("-n %s link set lo up", names[1]),
	} {
		if err := ip(c); err != nil {
			t.Skipf("not run: %v", err)
		}
	}
	path := filepath.Join(t.TempDir(), "ssh")
	script := fmt.Sprintf("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\ncase $1 in %s) n=%s;; *) n=%s;; esac\nshift\nexec ip netns exec $n sh -c \"$*\"\n", addrs[0], names[0], names[1])
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return addrs, []string{path}
}

// Ranks on two machines: they connect beyond the loopback interface, with the token.
func TestTwoMachines(t *testing.T) {
	addrs, ssh := namespaces(t)
	t.Setenv("LOCUS_TEST_ROLE", "sum")
	var r result
	s := r.spec(0, os.Args[0])
	s.Hosts, s.SSH = []Host{{addrs[0], 2}, {addrs[1], 1}}, ssh
	if err := Run(context.Background(), s); err != nil {
		t.Fatal(err, r.errs.String())
	}
	if !strings.Contains(r.out.String(), "[0] the sum is 6\n") || !strings.Contains(r.out.String(), "[2] the sum is 6\n") {
		t.Errorf("%q %q", r.out.String(), r.errs.String())
	}
}

// The cable is pulled: both sides notice.
func TestCable(t *testing.T) {
	addrs, ssh := namespaces(t)
	t.Setenv("LOCUS_TEST_ROLE", "endless")
	var r result
	s := r.spec(0, os.Args[0])
	s.Hosts, s.SSH = []Host{{addrs[0], 1}, {addrs[1], 1}}, ssh
	go func() {
		for strings.Count(r.out.String(), "READY") < 2 {
			time.Sleep(time.Millisecond)
		}
		exec.Command("ip", "-n", fmt.Sprintf("lt%da", os.Getpid()), "link", "set", "v0", "down").Run() // the test sees it if it fails
	}()
	started := time.Now()
	err := Run(context.Background(), s)
	if err == nil || time.Since(started) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	if e := r.errs.String(); !strings.Contains(e, "[0] ") || !strings.Contains(e, "[1] ") || strings.Count(e, "has not answered for 2s") != 2 {
		t.Errorf("the ranks say %q", e)
	}
}
