package locus

import (
	"errors"

	"github.com/locusml/locus/internal/backend"
)

// openGPUs finds the machine's real GPUs.
func openGPUs() ([]backend.Device, error) {
	return nil, errors.New("this build has no GPU backend")
}
