package locus

import (
	"fmt"
	"os"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/program"
)

// fusing is whether elementwise steps of programs are put together. It changes no
// result: the switch is there to find out whether it matters.
var fusing = os.Getenv("LOCUS_FUSE") != "off"

// fuse returns the program as device d runs it.
func fuse(p *program.Program, d backend.Device) *program.Program {
	f, ok := d.(backend.Fuser)
	if !ok || !fusing {
		return p
	}
	q := p.Fold(d.Supports).Fuse(f)
	if err := q.Verify(); err != nil {
		panic("locus: fusion made a program that is wrong: " + err.Error())
	}
	return q
}

// explainFusion returns a line on what was fused in a program, "" if there was nothing
// to try.
func explainFusion(p *program.Program) string {
	fused, into, alone := 0, 0, 0
	for i := range p.Steps {
		if n := len(p.Steps[i].Parts); n > 0 {
			fused += n
			into++
		} else if p.Steps[i].Alone != "" {
			alone++
		}
	}
	if fused+alone == 0 {
		return ""
	}
	return fmt.Sprintf("fusion: %d elementwise steps became %d, %d stay alone; %d steps are run in all", fused, into, alone, len(p.Steps))
}
