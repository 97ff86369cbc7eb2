//go:build amd64 || arm64

// Package goid tells goroutines apart: Go has no variables of a goroutine.
package goid

// Get returns a number that no other living goroutine has: the address of the
// runtime's record of it.
func Get() uintptr
