package data_test

import (
	"testing"

	"github.com/locusml/locus/internal/examplecheck"
)

// Every exported function and option has a runnable example.
func TestExamples(t *testing.T) {
	examplecheck.Check(t, ".", map[string]string{"ImageOptions.Grey": "deprecated"})
}
