//go:build amd64 || arm64

package vec

import "testing"

// eachLevel runs f at every level of vector code this machine has.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	old := level
	defer func() { level = old }()
	for _, l := range Levels() {
		if vectors(l) != l {
			continue
		}
		level = l
		t.Run(l.String(), f)
	}
}
