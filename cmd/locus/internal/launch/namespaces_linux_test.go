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

// mpirun on two machines: MPI tells the ranks where they meet.
func TestTwoMachinesMPI(t *testing.T) {
	for _, c := range []struct{ command, args string }{
		{"mpirun.openmpi", "--allow-run-as-root --mca plm_rsh_agent SSH --mca btl tcp,self --mca btl_tcp_if_include v0 --mca oob_tcp_if_include v0 -x LOCUS_TEST_ROLE -host A:1,B:1 -np 2"},
		{"mpirun.mpich", "-launcher ssh -launcher-exec SSH -hosts A,B -genvlist LOCUS_TEST_ROLE -np 2"},
	} {
		t.Run(c.command, func(t *testing.T) {
			path, err := exec.LookPath(c.command)
			if err != nil {
				t.Skipf("not run: %v (Debian: apt-get install openmpi-bin mpich)", err)
			}
			addrs, ssh := namespaces(t)
			t.Setenv("LOCUS_TEST_ROLE", "sum")
			args := strings.Fields(strings.NewReplacer("SSH", ssh[0], "A:", addrs[0]+":", "B:", addrs[1]+":", "A,B", addrs[0]+","+addrs[1]).Replace(c.args))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			// The first machine is where mpirun itself runs.
			cmd := exec.CommandContext(ctx, "ip", append(append([]string{"netns", "exec", fmt.Sprintf("lt%da", os.Getpid()), path}, args...), os.Args[0])...)
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "the sum is 3") != 2 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
