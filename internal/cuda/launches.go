package cuda

// Launches counts what a device's host side has handed over, for benchmarks: what the
// host does in a step grows with their number.
type Launches struct {
	Kernels   uint64 // of this package
	Libraries uint64 // calls of cuBLAS, cuBLASLt and cuDNN, each of one kernel or several
	Graphs    uint64 // replays of recorded calls
}

// Sub returns what was counted since before.
func (l Launches) Sub(before Launches) Launches {
	return Launches{l.Kernels - before.Kernels, l.Libraries - before.Libraries, l.Graphs - before.Graphs}
}

// Total returns the number of all.
func (l Launches) Total() uint64 { return l.Kernels + l.Libraries + l.Graphs }
