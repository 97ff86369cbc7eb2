package vec

import "testing"

// eachLevel runs f at every level of vector code this machine has.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	old := level
	defer func() { level = old }()
	for l := Generic; l <= Best(); l++ {
		level = l
		t.Run(l.String(), f)
	}
}
