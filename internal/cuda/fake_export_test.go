//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "testing"

// UseFake makes a fake card, without libraries, the one that programs find, and returns the
// names of the kernels that were launched on it since the last call.
func UseFake(t *testing.T) (launched func() []string) {
	f, devices := openFake(t, 1)
	opened.once.Do(func() {})
	old, err := opened.devices, opened.err
	opened.devices, opened.err = devices, nil
	t.Cleanup(func() { opened.devices, opened.err = old, err })
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
