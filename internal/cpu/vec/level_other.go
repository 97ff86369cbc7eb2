//go:build !amd64

package vec

// level is a constant here so that the compiler drops every other branch.
const level = Generic

func detect() Level { return Generic }

var _ = choose // the environment variable has nothing to choose between
