//go:build !amd64 && !arm64

package vec

// level is a constant here so that the compiler drops every other branch.
const level = Generic

// known has the levels of this architecture, in ascending order.
var known = []Level{Generic}

const chosen = level

func preferred(best Level) Level { return best }

func detect() Level { return Generic }
