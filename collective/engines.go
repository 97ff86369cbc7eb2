package collective

import (
	"os"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/mpi"
	"github.com/locusml/locus/internal/nccl"
)

// EngineInfo describes an engine, for people.
type EngineInfo struct {
	Name   string // "ring", "mpi" or "nccl"
	Serves string // which tensors
	Found  bool   // it can be used on this machine
	Chosen bool   // Join would use it in this process, as far as this rank has a say
	Why    string // what was found, or why it is not used
}

// Engines returns the engines that can move data among ranks on this machine, which of
// them [Join] would use in this process, and why. NCCL serves tensors on GPUs only if all
// ranks have it. It is an error if LOCUS_COLLECTIVE or a launcher's variables are
// invalid.
func Engines() ([]EngineInfo, error) {
	s, err := newSettings(nil)
	if err != nil {
		return nil, newError("Engines", err)
	}
	name, err := s.chosen()
	if err != nil {
		return nil, newError("Engines", err)
	}
	p, err := FromEnv()
	if err != nil {
		return nil, err
	}
	family := mpi.Launched(os.Getenv)
	m := EngineInfo{Name: "mpi", Serves: "main memory"}
	if lib, err := mpi.Find(family); err != nil {
		m.Why = firstLine(err)
	} else {
		m.Found, m.Why = true, lib.Version+", "+lib.Path
		byMPI := p.Launcher == byOMPI || p.Launcher == byPMI
		if m.Chosen = name == "mpi" || name != "ring" && byMPI; !m.Chosen && !byMPI {
			m.Why += "; used by programs that mpirun starts"
		}
	}
	n := EngineInfo{Name: "nccl", Serves: "GPUs"}
	if lib, err := nccl.Load(); err != nil {
		n.Why = firstLine(err)
	} else {
		n.Found, n.Why = locus.WhyNoGPU() == nil, lib.String()+", "+lib.Path
		n.Chosen = n.Found && (name == "auto" || name == "nccl")
		if !n.Found {
			n.Why += "; there is no NVIDIA GPU"
		}
	}
	r := EngineInfo{Name: "ring", Serves: "main memory, and GPUs by way of it", Found: true, Chosen: !m.Chosen, Why: "TCP, and shared memory on one Linux machine; part of Locus"}
	return []EngineInfo{r, m, n}, nil
}

// firstLine returns the first line of an error, without the announcement of what follows.
func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(strings.TrimSuffix(s, ":"), "; tried, in this order")
}
