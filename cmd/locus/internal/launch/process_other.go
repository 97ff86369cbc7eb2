//go:build !unix

package launch

import (
	"os"
	"os/exec"
)

func apart(*exec.Cmd) {}

func interrupt(p *os.Process, _ bool) { _ = p.Kill() } // it may have ended

func kill(p *os.Process) { _ = p.Kill() } // it may have ended

func signalOf(*exec.ExitError) int { return 0 }
