package cpu_test

import (
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/backend/backendtest"
	"github.com/locusml/locus/internal/cpu"
)

// The conformance suite holds the naive references that kernels are compared
// with: every op, dtype, layout and special value.
func TestConformance(t *testing.T) {
	backendtest.Run(t, func() backend.Device { return cpu.Open() })
}
