//go:build amd64 || arm64

package pool

// pause executes the CPU's spin-loop hint n times (n > 0). It keeps a spinning
// thread from starving its sibling and from flooding the cache-coherence bus.
//
//go:noescape
func pause(n uint32)
