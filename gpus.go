package locus

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cuda"
)

// openGPUs finds the machine's real GPUs, or says why there are none.
func openGPUs() ([]backend.Device, error) {
	found, err := cuda.Open()
	devices := make([]backend.Device, len(found))
	for i, d := range found {
		devices[i] = d
	}
	return devices, err
}
