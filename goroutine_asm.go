//go:build amd64 || arm64

package locus

// goroutine gives a number that no other living goroutine has: the address of
// the runtime's record of it.
func goroutine() uintptr
