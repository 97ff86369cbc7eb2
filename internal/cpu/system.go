package cpu

import (
	"runtime"
	"strings"

	"github.com/locusml/locus/internal/cpu/vec"
)

// genericName is the name where the system tells none.
func genericName() string { return runtime.GOARCH + " processor" }

// instructionSet names the vector instructions that the kernels use.
func instructionSet() string {
	if vec.Products() == vec.Generic {
		return "plain Go"
	}
	return strings.ToUpper(vec.Products().String())
}
