//go:build !amd64 && !arm64

// Package goid tells goroutines apart: Go has no variables of a goroutine.
package goid

import (
	"bytes"
	"runtime"
	"strconv"
)

// Get returns the number that the runtime prints for the calling goroutine.
func Get() uintptr {
	var buf [64]byte
	field := bytes.Fields(buf[:runtime.Stack(buf[:], false)])[1]
	n, _ := strconv.ParseUint(string(field), 10, 64)
	return uintptr(n)
}
