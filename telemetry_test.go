package locus

import (
	"errors"
	"testing"
)

func TestDetails(t *testing.T) {
	v := AddVirtualGPUs(1, 1<<20)[0]
	if !v.Details().Virtual {
		t.Errorf("%s is not said to be virtual", v)
	}
	if d := CPU().Details(); d.Virtual || d.Libraries != nil || d.Driver != "" {
		t.Errorf("the CPU's details are %+v", d)
	}
	if err := Try(func() { GPU(1 << 19).Details() }); !errors.Is(err, ErrDevice) {
		t.Errorf("details of a device that does not exist: %v", err)
	}
}

func TestTelemetryWithoutSensors(t *testing.T) {
	v := AddVirtualGPUs(1, 1<<20)[0]
	for _, d := range []Device{CPU(), v} {
		if _, err := d.Telemetry(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", d, err)
		}
	}
	if _, err := GPU(1 << 19).Telemetry(); !errors.Is(err, ErrDevice) {
		t.Errorf("a device that does not exist: %v", err)
	}
}

// On machines with a GPU its figures are looked at; there is nothing to look at
// elsewhere.
func TestTelemetryOfGPU(t *testing.T) {
	if err := WhyNoGPU(); err != nil {
		t.Skipf("no real GPU: %v", err)
	}
	d := GPU(0)
	if x := d.Details(); x.Driver == "" || x.ComputeCapability == "" || x.Multiprocessors == 0 || len(x.Libraries) == 0 {
		t.Errorf("details of %s: %+v", d, x)
	}
	got, err := d.Telemetry()
	if err != nil {
		t.Skipf("NVML: %v", err)
	}
	if got.Utilization > 100 || got.Temperature > 150 || got.MemoryUsed == 0 || got.Utilisation != got.Utilization {
		t.Errorf("telemetry of %s: %+v", d, got)
	}
}
