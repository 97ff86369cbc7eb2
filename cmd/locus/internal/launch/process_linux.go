package launch

import "syscall"

// withLauncher makes ranks end with the launcher, however that ends.
func withLauncher(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
