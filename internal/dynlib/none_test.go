//go:build !((linux || darwin) && (amd64 || arm64)) || nocuda

package dynlib

import (
	"errors"
	"testing"
)

func TestThisBuildLoadsNothing(t *testing.T) {
	l := Library{Name: "a library", Names: []string{"libm.so.6", "libm.so.6"}}
	if _, err := l.Open(); !errors.Is(err, ErrBuild) {
		t.Errorf("Open: %v", err)
	}
}
