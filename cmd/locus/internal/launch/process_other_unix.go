//go:build unix && !linux

package launch

import "syscall"

func withLauncher(*syscall.SysProcAttr) {}
