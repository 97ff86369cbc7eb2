package launch

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Host is a machine and the number of ranks on it.
type Host struct {
	Name  string // "" for this machine
	Slots int
}

// ParseHosts reads a list such as a:4,b:2 or a,b.
func ParseHosts(list string) ([]Host, error) {
	var l []Host
	for f := range strings.SplitSeq(list, ",") {
		h, err := parseHost(strings.TrimSpace(f))
		if err != nil {
			return nil, err
		}
		l = append(l, h)
	}
	return l, nil
}

// ParseHostFile reads a file with a host on each line, as Open MPI's and MPICH's host files:
// "node1 slots=4", "node1:4", "node1". What follows a # is a comment.
func ParseHostFile(text string) ([]Host, error) {
	var l []Host
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		s := fields[0]
		for _, f := range fields[1:] {
			if v, ok := strings.CutPrefix(f, "slots="); ok {
				s += ":" + v
			}
		}
		h, err := parseHost(s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		l = append(l, h)
	}
	if len(l) == 0 {
		return nil, fmt.Errorf("it names no host")
	}
	return l, nil
}

func parseHost(s string) (Host, error) {
	name, slots, ok := strings.Cut(s, ":")
	n := 1
	if ok {
		var err error
		if n, err = strconv.Atoi(slots); err != nil || n < 1 || n > 1024 {
			return Host{}, fmt.Errorf("%q: %q is not a number of ranks", s, slots)
		}
	}
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t'\"\\$`;&|<>()") {
		return Host{}, fmt.Errorf("%q is not a host", s)
	}
	return Host{name, n}, nil
}

// remoteScript runs a command on another machine. The token comes over standard input, where
// nobody sees it; the end of standard input is the end of the rank, however this side ended.
const remoteScript = `read -r LOCUS_TOKEN; export LOCUS_TOKEN; exec 3<&0
cd %s && %s </dev/null 3<&- & pid=$!
( cat <&3 >/dev/null; kill -TERM $pid; sleep 10; kill -KILL $pid ) >/dev/null 2>&1 &
wait $pid; code=$?; kill $! 2>/dev/null; exit $code`

// remote makes a rank on another machine.
func (r *rank) remote(s *Spec, h Host, vars []string, token string) error {
	dir := s.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return err
		}
	}
	words := append(append([]string{"env"}, vars...), s.Command...)
	for i, w := range words {
		words[i] = quote(w)
	}
	ssh := s.SSH
	if ssh == nil {
		ssh = []string{"ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15"}
	}
	args := append(append([]string{}, ssh[1:]...), h.Name, "sh -c "+quote(fmt.Sprintf(remoteScript, quote(dir), strings.Join(words, " "))))
	r.cmd = exec.Command(ssh[0], args...)
	apart(r.cmd)
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(in, token); err != nil { // the pipe holds a line before anybody reads
		return err
	}
	r.stdin = in
	return nil
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
