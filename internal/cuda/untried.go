//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"os"

	"github.com/locusml/locus/internal/op"
)

// untried lets devices use what no card has run yet, which LOCUS_UNTRIED=1 turns on to
// measure it. What is measured, and right, loses its condition:
//
//   - the ops of untriedOps
//   - batch normalization of images channels last in one launch: see pixelsTogether
var untried = os.Getenv("LOCUS_UNTRIED") == "1"

// untriedOps are ops that devices do not support unless untried is set.
var untriedOps = map[op.ID]bool{op.BiasActivate: true, op.ActivationGradSum: true}
