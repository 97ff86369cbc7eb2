//go:build linux || darwin

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// spillsMax is how many bytes a kernel may spill to memory. Those that hold large
// tiles in registers spill a few, and are faster than with smaller tiles; an array that
// the compiler could not keep in registers shows as many more.
const spillsMax = 512

// check assembles the PTX for each architecture. It prints which kernels spill
// registers, and fails where one spills more than spillsMax.
func check(ptxas, name, ptx string, archs []string) error {
	f, err := os.CreateTemp("", name+"*.ptx")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(ptx); err != nil {
		return err
	}
	f.Close()
	errs := make([]error, len(archs))
	var wg sync.WaitGroup
	for i, arch := range archs {
		wg.Go(func() {
			out, err := exec.Command(ptxas, "-v", "-arch=sm_"+arch, "-o", "/dev/null", f.Name()).CombinedOutput()
			if err != nil {
				errs[i] = fmt.Errorf("%s for sm_%s: %w\n%s", name, arch, err, tail(string(out)))
				return
			}
			errs[i] = checkSpills(arch, string(out))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

var (
	entryLine = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	spillLine = regexp.MustCompile(`(\d+) bytes spill stores`)
)

// checkSpills reads what ptxas -v says of one architecture.
func checkSpills(arch, out string) error {
	var errs []error
	entry := ""
	for line := range strings.Lines(out) {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			entry = m[1]
		}
		m := spillLine.FindStringSubmatch(line)
		if m == nil || m[1] == "0" {
			continue
		}
		bytes, err := strconv.Atoi(m[1])
		if err != nil || bytes > spillsMax {
			errs = append(errs, fmt.Errorf("%s for sm_%s spills %s bytes of registers, more than %d", entry, arch, m[1], spillsMax))
			continue
		}
		fmt.Printf("  sm_%s: %s spills %d bytes\n", arch, entry, bytes)
	}
	return errors.Join(errs...)
}

func tail(s string) string {
	if len(s) > 4000 {
		return s[:4000]
	}
	return s
}
