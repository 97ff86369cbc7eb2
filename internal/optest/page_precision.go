package optest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// The lists of docs/precision.md lie between these lines.
const (
	PrecisionBegin = "<!-- from the table of ops: go test ./internal/optest -run TestPrecisionPage -update -->\n"
	PrecisionEnd   = "<!-- end of the table -->\n"
)

// PrecisionLists returns what the table of ops says of half precision, as Markdown.
func PrecisionLists() string {
	var wide, steps strings.Builder
	var once []string
	for _, def := range op.All() {
		if def.Family == op.ViewFamily || !def.KernelTypes().Has(dtype.BFloat16) {
			continue
		}
		name := op.Public(def.Name)
		row := func(b *strings.Builder, what string) { fmt.Fprintf(b, "| %s | %s |\n", name, what) }
		if w := def.Half.Float32; w != "" {
			row(&wide, w)
		}
		if r := def.Half.Rounds; r != "" {
			row(&steps, r)
		} else if def.Half.Float32 == "" && !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return "Results that are float32 although the operands are half precision:\n\n| op | float32 |\n|---|---|\n" + wide.String() +
		"\nOps that may round on the way, in the order in which a kernel or a library computes:\n\n| op | rounds also |\n|---|---|\n" + steps.String() +
		fmt.Sprintf("\nAll others compute in float32, sums included, and round the result once: %s.\n", strings.Join(once, ", "))
}
