// Package blastest finds a BLAS library for tests.
package blastest

import (
	"os"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/cpu/blas"
)

// Open returns the library that LOCUS_TEST_BLAS names, else the first one that is
// found on the machine. Without any the test is skipped, and says why.
func Open(t testing.TB) *blas.Library {
	t.Helper()
	name := os.Getenv("LOCUS_TEST_BLAS")
	l, err := blas.Open(name)
	if err != nil {
		if name != "" {
			t.Fatalf("LOCUS_TEST_BLAS=%s: %v", name, err)
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		t.Skip("no BLAS library to test with (LOCUS_TEST_BLAS=path names one): " + first)
	}
	t.Logf("%s: %s", l.Path, l)
	return l
}
