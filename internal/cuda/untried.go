//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "os"

// untried lets devices use what no card has run yet. Each use is off until it was measured
// on one: LOCUS_UNTRIED=1 turns all of them on, for that purpose.
//
//   - attention that lays its results out by rows (op.Attention.Rows)
//   - cuDNN's gradient of attention in no fixed order (SetVarying)
//   - sums at indices by atomic additions (SetVarying)
//
// What is measured, and right, loses its condition here.
var untried = os.Getenv("LOCUS_UNTRIED") == "1"

// AttendsByRows reports whether attention's kernels lay results out by rows themselves.
func (*Device) AttendsByRows() bool { return untried }
