//go:build linux && (amd64 || arm64) && !nocuda

package cuda

// setUntried sets untried, and returns what undoes that.
func setUntried(on bool) func() {
	old := untried
	untried = on
	return func() { untried = old }
}
