package locus

import (
	"fmt"

	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/virtual"
)

// Library is a library file that a device uses.
type Library struct {
	Name   string `json:"name"` // "cuBLAS"
	Path   string `json:"path"`
	Serves string `json:"serves"` // what it is used for
}

// DeviceDetails is what is known of a device beyond its [DeviceInfo]. A field that
// does not apply is empty.
type DeviceDetails struct {
	Virtual           bool   // a GPU that lives in host memory
	ComputeCapability string // "9.0"
	Driver            string // the version of CUDA that the driver supports
	PCI               string // where the card is plugged in
	Multiprocessors   int
	Libraries         []Library
}

// Details describes d further. A device that does not exist is an [ErrDevice].
func (d Device) Details() DeviceDetails {
	switch b := d.open("Details").backend.(type) {
	case *cpu.Device:
		return DeviceDetails{Libraries: blasLibraries()}
	case *virtual.Device:
		return DeviceDetails{Virtual: true, Libraries: blasLibraries()}
	case *cuda.Device:
		from := b.Details()
		details := DeviceDetails{ComputeCapability: from.ComputeCapability, Driver: from.Driver, PCI: from.PCI, Multiprocessors: from.Multiprocessors}
		for _, l := range from.Libraries {
			details.Libraries = append(details.Libraries, Library{l.Name, l.Path, l.Serves})
		}
		return details
	}
	return DeviceDetails{}
}

// Telemetry is what a GPU's sensors report at a moment. A figure that it does not
// measure is -1.
type Telemetry struct {
	Utilization int     // percent of the time with a kernel running
	Temperature int     // °C
	Power       float64 // watts
	MemoryUsed  int64   // bytes in use on the card, by all processes

	// Deprecated: Read Utilization.
	Utilisation int
}

// Telemetry reads the GPU's sensors. The error is an [ErrUnsupported] on devices
// that have no sensors (the CPU and virtual GPUs), and says what is missing where
// NVML cannot be used.
func (d Device) Telemetry() (t Telemetry, err error) {
	err = Try(func() {
		b, ok := d.open("Telemetry").backend.(*cuda.Device)
		if !ok {
			fail("Telemetry", op.Problemf(ErrUnsupported, "%s has no sensors", d))
		}
		got, err := b.Telemetry()
		if err != nil {
			fail("Telemetry", fmt.Errorf("%s: %w: %w", d, ErrUnsupported, err))
		}
		t = Telemetry{Utilization: got.Utilization, Temperature: got.Temperature, Power: got.Power, MemoryUsed: got.MemoryUsed, Utilisation: got.Utilization}
	})
	return t, err
}
