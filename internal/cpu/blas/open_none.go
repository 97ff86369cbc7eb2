//go:build !((linux || darwin) && (amd64 || arm64)) || nocuda

package blas

import "errors"

// Open reports that this build loads no libraries.
func Open(string) (*Library, error) {
	return nil, errors.New("no BLAS library can be used: this program was built without the loading of libraries (it needs Linux or macOS on amd64 or arm64, and no build tag nocuda); Locus' own products need nothing")
}
