//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "testing"

// forPrograms is the fake card that programs have found: they look once.
var forPrograms *fake

// UseFake makes a fake card, without libraries, the one that programs find, and returns the
// names of the kernels that were launched on it since the last call. run does what a kernel
// does; it may be nil.
func UseFake(t *testing.T, run func(l launched)) (launched func() []string) {
	if forPrograms == nil {
		f, devices := openFake(t, 1)
		Open()
		old, err := opened.devices, opened.err
		opened.devices, opened.err = devices, nil
		t.Cleanup(func() { opened.devices, opened.err = old, err }) // for the tests that want a card
		forPrograms = f
	}
	f := forPrograms
	current, f.emulate = f, run
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

// Emulation is emulation.
func Emulation(t *testing.T, sources ...string) func(l launched) { return emulation(t, sources...) }
