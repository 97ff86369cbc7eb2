//go:build !amd64

package vec

import "runtime"

// level is a constant here so that the compiler drops every other branch.
const level = Generic

// known has the levels of this architecture, in ascending order.
var known = levelsOf(runtime.GOARCH)

var chosen = choose(detect())

func preferred(best Level) Level { return best }

func levelsOf(arch string) []Level {
	if arch == "arm64" { // every such CPU has the instructions
		return []Level{Generic, NEON}
	}
	return []Level{Generic}
}

func detect() Level { return known[len(known)-1] }
