package dynlib

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Wheels returns where pip and conda put libraries: conda's folder, and folders below
// the site-packages of the active virtual environment, then of the system.
func Wheels(below ...string) []string {
	var l []string
	if conda := os.Getenv("CONDA_PREFIX"); conda != "" {
		l = append(l, filepath.Join(conda, "lib"))
	}
	if venv := os.Getenv("VIRTUAL_ENV"); venv != "" {
		l = append(l, filepath.Join(venv, "lib"))
		for _, b := range below {
			l = append(l, filepath.Join(venv, "lib/python3*/site-packages", b))
		}
	}
	for _, b := range below {
		l = append(l, filepath.Join("/usr/local/lib/python3*/*-packages", b), filepath.Join("/usr/lib/python3*/*-packages", b))
	}
	return l
}

// System returns the folders of a Linux distribution's own libraries, for machines
// whose loader has not been told of a new file yet.
func System() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	triplet := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if triplet == "" {
		return []string{"/usr/lib64"}
	}
	return []string{"/usr/lib/" + triplet + "-linux-gnu", "/usr/lib64"}
}

// byVersion compares two paths with the numbers in them as numbers: cuda-9.2 comes
// before cuda-12.0.
func byVersion(a, b string) int {
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m == 0 || n == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits counts the digits that s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
