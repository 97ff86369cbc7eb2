//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"os"

	"github.com/locusml/locus/internal/op"
)

// untriedOps are ops that no card has run yet: devices do not support them until they were
// measured on one, for which LOCUS_UNTRIED=1 turns them on. What is measured, and right, is
// taken out of here.
var untriedOps = map[op.ID]bool{op.BiasActivate: true, op.ActivationGradSum: true}

var untried = os.Getenv("LOCUS_UNTRIED") == "1"
