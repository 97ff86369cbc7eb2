//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/backend/backendtest"
)

// gpu returns the first GPU, or skips the test with the reason why there is none.
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

// What the card says of itself, for the log of a run.
func TestDetails(t *testing.T) {
	d := gpu(t)
	details := d.Details()
	if details.ComputeCapability == "" || details.Driver == "" || details.Multiprocessors == 0 || details.Memory == 0 || len(details.Libraries) == 0 {
		t.Errorf("too little: %+v", details)
	}
	t.Logf("%s: %+v", d.Info().Name, details)
	telemetry, err := d.Telemetry()
	if err != nil {
		t.Logf("no telemetry: %v", err)
		return
	}
	if telemetry.MemoryUsed <= 0 || telemetry.Temperature <= 0 {
		t.Errorf("telemetry: %+v", telemetry)
	}
	t.Logf("telemetry: %+v", telemetry)
}

// Two shares of a card are devices of their own.
func TestShares(t *testing.T) {
	shares, err := gpu(t).Split(1<<30, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	backendtest.Run(t, func() backend.Device {
		i++
		return newDevice(shares[i%2].card, shares[i%2].cap, shares[i%2].name)
	})
}
