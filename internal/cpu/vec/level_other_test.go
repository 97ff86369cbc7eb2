//go:build !amd64 && !arm64

package vec

import "testing"

func eachLevel(t *testing.T, f func(t *testing.T)) { t.Run(level.String(), f) }
