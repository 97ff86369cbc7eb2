//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "os"

// untried lets devices use what no card has run yet, which LOCUS_UNTRIED=1 turns on to
// measure it: batch normalization of images channels last in one launch (pixelsTogether).
// What is measured, and right, loses its condition.
var untried = os.Getenv("LOCUS_UNTRIED") == "1"
