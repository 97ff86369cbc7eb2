// Package card shows devices the way people want to see graphics cards: what each
// is, how full its memory is, and what it is doing.
package card

import (
	"strings"

	"github.com/locusml/locus"
)

// Memory is how full a device is, in bytes.
type Memory struct {
	Total int64 `json:"total"`
	Used  int64 `json:"used"` // by everybody
	Own   int64 `json:"own"`  // by tensors of this process
}

// Sensors are a card's own figures; nil is one that it does not measure.
type Sensors struct {
	Utilization *int     `json:"utilization_percent,omitempty"`
	Temperature *int     `json:"temperature_celsius,omitempty"`
	Power       *float64 `json:"power_watts,omitempty"`

	// Old is Utilization once more, under the key of earlier versions.
	Old *int `json:"utilisation_percent,omitempty"`
}

// Card is a device.
type Card struct {
	Device          locus.Device    `json:"device"`
	Kind            string          `json:"kind"` // "cpu", "gpu", "virtual gpu"
	Name            string          `json:"name"`
	Backing         string          `json:"backing"`
	Memory          Memory          `json:"memory"`
	Sensors         *Sensors        `json:"sensors,omitempty"`
	NoSensors       string          `json:"no_sensors,omitempty"` // why a real GPU shows none
	Driver          string          `json:"cuda_driver,omitempty"`
	Capability      string          `json:"compute_capability,omitempty"`
	PCI             string          `json:"pci,omitempty"`
	Multiprocessors int             `json:"multiprocessors,omitempty"`
	Libraries       []locus.Library `json:"libraries,omitempty"`
}

// Machine is all there is.
type Machine struct {
	Devices []Card `json:"devices"`
	// NoGPU says why there is no real GPU, in one line; Hint what to do.
	NoGPU string `json:"no_gpu,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Look asks all devices.
func Look() Machine {
	var m Machine
	for _, i := range locus.Devices() {
		m.Devices = append(m.Devices, look(i))
	}
	if err := locus.WhyNoGPU(); err != nil {
		m.NoGPU, m.Hint = Why(err)
	}
	return m
}

func look(i locus.DeviceInfo) Card {
	details := i.Device.Details()
	c := Card{Device: i.Device, Kind: "cpu", Name: i.Name, Backing: i.Backing,
		Memory: Memory{i.Total, max(0, i.Total-i.Free), i.Device.MemoryStats().InUse},
		Driver: details.Driver, Capability: details.ComputeCapability, PCI: details.PCI,
		Multiprocessors: details.Multiprocessors, Libraries: details.Libraries}
	if !i.Device.IsGPU() {
		return c
	}
	c.Kind = "gpu"
	if details.Virtual {
		c.Kind = "virtual gpu"
		return c
	}
	t, err := i.Device.Telemetry()
	if err != nil {
		c.NoSensors, _, _ = strings.Cut(err.Error(), "\n")
		return c
	}
	c.Sensors = sensors(t)
	if t.MemoryUsed >= 0 {
		c.Memory.Used = t.MemoryUsed
	}
	return c
}

func sensors(t locus.Telemetry) *Sensors {
	s := &Sensors{}
	if t.Utilization >= 0 {
		s.Utilization, s.Old = &t.Utilization, &t.Utilization
	}
	if t.Temperature >= 0 {
		s.Temperature = &t.Temperature
	}
	if t.Power >= 0 {
		s.Power = &t.Power
	}
	return s
}

// Why returns the reason that there is no GPU in one line, and what to do.
func Why(err error) (why, hint string) {
	why, _, _ = strings.Cut(err.Error(), "\n")
	why = strings.TrimPrefix(why, "no NVIDIA GPU can be used: ")
	why = strings.TrimSuffix(strings.TrimSuffix(why, ":"), "; tried, in this order")
	switch {
	case strings.Contains(why, "built without CUDA"):
		hint = "use a build for linux on amd64 or arm64"
	case strings.Contains(why, "was not found"):
		hint = "install NVIDIA's driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install; in a container: --gpus all); no CUDA toolkit is needed"
	default:
		hint = "locus doctor says more"
	}
	return why, hint
}
