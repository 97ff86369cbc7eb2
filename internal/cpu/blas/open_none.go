//go:build !((linux || darwin) && (amd64 || arm64)) || nocuda

package blas

import (
	"fmt"

	"github.com/locusml/locus/internal/dynlib"
)

// Open reports that this build loads no libraries.
func Open(string) (*Library, error) {
	return nil, fmt.Errorf("no BLAS library can be used: %w; Locus' own products need nothing", dynlib.ErrBuild)
}
