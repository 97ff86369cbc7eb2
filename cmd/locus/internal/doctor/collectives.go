package doctor

import (
	"strings"

	"github.com/locusml/locus/collective"
)

// collectives says how ranks of a program would move data, and what was found for it.
func (s System) collectives() Check {
	c := Check{Name: "several ranks", Status: OK}
	engines, err := collective.Engines()
	if err != nil {
		c.Status, c.Fix = Warning, "set LOCUS_COLLECTIVE to auto, ring, mpi or nccl, or unset it; unset a launcher's variables that are left over"
		c.Found, _, _ = strings.Cut(err.Error(), "\n")
		return c
	}
	var used []string
	for _, e := range engines {
		mark := "not used"
		if e.Chosen {
			mark = "used"
			used = append(used, e.Name+" for "+e.Serves)
		}
		c.More = append(c.More, e.Name+" ("+mark+"): "+e.Why)
	}
	c.Found = strings.Join(used, ", ")
	if p, err := collective.FromEnv(); err == nil && p.Launcher != "" {
		c.Found += "; this process is " + p.String()
	}
	return c
}
