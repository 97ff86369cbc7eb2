//go:build !linux

package mpi

// keepSignals does nothing: the libraries that take over signals are Linux's.
func keepSignals() (restore func()) { return func() {} }
