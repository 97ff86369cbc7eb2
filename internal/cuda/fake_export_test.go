//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "testing"

// UseFake makes a fake card, without libraries, the one that programs find, and returns the
// names of the kernels that were launched on it since the last call.
func UseFake(t *testing.T) (launched func() []string) {
	f, devices := openFake(t, 1)
	opened.once.Do(func() {})
	opened.devices, opened.err = devices, nil
	return func() (names []string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, l := range f.launches {
			names = append(names, l.kernel)
		}
		f.launches = nil
		return names
	}
}

// SetUntried is setUntried.
func SetUntried(on bool) func() { return setUntried(on) }
