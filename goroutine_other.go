//go:build !amd64 && !arm64

package locus

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutine gives the number that the runtime prints for the calling goroutine.
func goroutine() uintptr {
	var buf [64]byte
	field := bytes.Fields(buf[:runtime.Stack(buf[:], false)])[1]
	n, _ := strconv.ParseUint(string(field), 10, 64)
	return uintptr(n)
}
