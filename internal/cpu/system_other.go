//go:build !linux

package cpu

func modelName() string { return genericName() }

// systemMemory is unknown here.
func systemMemory() (total, free int64) { return 0, 0 }

// preferHugePages has no way to ask here.
func preferHugePages([]byte) {}
