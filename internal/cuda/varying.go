package cuda

import "sync/atomic"

var varying atomic.Bool

// SetVarying lets algorithms be chosen whose results do not repeat their last bits.
func SetVarying(on bool) { varying.Store(on) }

// Varying reports whether such algorithms may be chosen.
func Varying() bool { return varying.Load() }
