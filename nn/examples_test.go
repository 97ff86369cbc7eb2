package nn_test

import (
	"testing"

	"github.com/locusml/locus/internal/examplecheck"
)

// Everything that the package exports is shown by an example that runs.
func TestExamples(t *testing.T) {
	examplecheck.Check(t, ".", nil)
}
