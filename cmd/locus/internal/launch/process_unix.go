//go:build unix

package launch

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// apart puts a rank into a process group of its own: an interrupt of the terminal
// reaches it through the launcher, once.
func apart(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	withLauncher(c.SysProcAttr)
}

// interrupt asks a rank and its children to end.
func interrupt(p *os.Process, byUser bool) {
	s := syscall.SIGTERM
	if byUser && !signal.Ignored(syscall.SIGINT) { // as in the background of a script; ranks inherit that
		s = syscall.SIGINT
	}
	_ = syscall.Kill(-p.Pid, s) // it may have ended
}

func kill(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // it may have ended
}

func signalOf(e *exec.ExitError) int {
	if w, ok := e.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal())
	}
	return 0
}
