//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "fmt"

// nvml is the library behind nvidia-smi.
type nvml struct {
	path        string
	byPCI       func(id string, dev *uintptr) int32
	utilization func(dev uintptr, rates *[2]uint32) int32
	temperature func(dev uintptr, sensor int32, t *uint32) int32
	power       func(dev uintptr, milliwatts *uint32) int32
	memory      func(dev uintptr, m *[3]uint64) int32
	errorString func(code int32) *byte
	init        func() int32
}

// loadNVML finds NVML.
func loadNVML() (*nvml, error) { return loadedNVML.get(findNVML) }

func findNVML() (*nvml, error) {
	h, err := libNVML.open(0)
	if err != nil {
		return nil, err
	}
	n := &nvml{}
	if err := h.Functions(map[string]any{
		"nvmlInit_v2": &n.init, "nvmlErrorString": &n.errorString, "nvmlDeviceGetHandleByPciBusId_v2": &n.byPCI,
		"nvmlDeviceGetUtilizationRates": &n.utilization, "nvmlDeviceGetTemperature": &n.temperature,
		"nvmlDeviceGetPowerUsage": &n.power, "nvmlDeviceGetMemoryInfo": &n.memory,
	}); err != nil {
		return nil, err
	}
	n.path = h.Path()
	return n, n.check("nvmlInit", n.init())
}

func (n *nvml) check(name string, code int32) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", name, cString(n.errorString(code)))
}

// Telemetry is what a card reports of itself. A figure that it does not
// measure is -1.
type Telemetry struct {
	Utilization int     // percent of the time with a kernel running
	Temperature int     // °C
	Power       float64 // watts
	MemoryUsed  int64   // bytes in use on the card, by all processes
}

// Telemetry asks the card, through NVML. Without NVML it reports an error.
func (d *Device) Telemetry() (Telemetry, error) {
	n, err := loadNVML()
	if err != nil {
		return Telemetry{}, err
	}
	var dev uintptr
	if err := n.check("nvmlDeviceGetHandleByPciBusId", n.byPCI(d.card.pci, &dev)); err != nil {
		return Telemetry{}, err
	}
	t := Telemetry{-1, -1, -1, -1}
	var rates [2]uint32
	if n.utilization(dev, &rates) == 0 {
		t.Utilization = int(rates[0])
	}
	var v uint32
	if n.temperature(dev, 0, &v) == 0 {
		t.Temperature = int(v)
	}
	if n.power(dev, &v) == 0 {
		t.Power = float64(v) / 1000
	}
	var m [3]uint64
	if n.memory(dev, &m) == 0 {
		t.MemoryUsed = int64(m[2])
	}
	return t, nil
}
