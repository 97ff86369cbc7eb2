//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/backend/backendtest"
)

// gpu gives the first GPU, or skips the test with the reason why there is none.
func gpu(t testing.TB) *Device {
	devices, err := Open()
	if err != nil {
		t.Skip(err)
	}
	return devices[0]
}

func TestConformance(t *testing.T) {
	d := gpu(t)
	backendtest.Run(t, func() backend.Device { return newDevice(d.card, 0, d.name) })
}
