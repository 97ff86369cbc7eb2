package collective

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/locusml/locus"
)

// Place is a process's position among those that were started together.
type Place struct {
	Rank, Size           int    // among all
	LocalRank, LocalSize int    // among those of its machine; LocalSize is 0 if it is not known
	Addr                 string // host:port of rank 0; "" where the launcher does not say
	Token                string // a secret that all ranks share; may be "" on one machine
	Launcher             string // which launcher set them: "mpirun (Open MPI)"; "" without one
}

// String returns "rank 2 of 4, from mpirun (Open MPI)".
func (p Place) String() string {
	if p.Launcher == "" {
		return "one rank: no launcher started this process"
	}
	s := fmt.Sprintf("rank %d of %d, from %s", p.Rank, p.Size, p.Launcher)
	if p.Addr != "" {
		s += ", rank 0 at " + p.Addr
	}
	return s
}

// Device returns the GPU that is meant for the rank: ranks of one machine take its GPUs in
// turn. Where there is none it is the CPU.
func (p Place) Device() locus.Device {
	n := locus.NumGPUs()
	if n == 0 || p.LocalRank < 0 {
		return locus.CPU()
	}
	return locus.GPU(p.LocalRank % n)
}

// The launchers.
const (
	byTorch = "RANK and WORLD_SIZE"
	byOMPI  = "mpirun (Open MPI)"
	byPMI   = "mpirun (MPICH)"
	bySlurm = "Slurm"
	byPET   = "Kubeflow"
)

// FromEnv reads this process's place from the environment. It knows, in this order:
// RANK and WORLD_SIZE, with MASTER_ADDR and MASTER_PORT (locus launch, torchrun); Open MPI's
// and MPICH's mpirun; Slurm's srun; and Kubeflow's PET_ variables with one process per node. A
// process that no launcher started is the only rank. LOCUS_TOKEN is the token.
func FromEnv() (Place, error) {
	p, err := placeFrom(os.Getenv)
	if err != nil {
		return Place{}, newError("FromEnv", err)
	}
	return p, nil
}

// env reads variables that belong together.
type env struct {
	get func(string) string
	err error
}

func (e *env) has(names ...string) bool {
	for _, n := range names {
		if e.get(n) == "" {
			return false
		}
	}
	return true
}

// number returns a variable's value, or what it is if it is not set.
func (e *env) number(name string, unset int) int {
	s := e.get(name)
	if s == "" {
		return unset
	}
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if (err != nil || n < 0 || n > 1<<20) && e.err == nil {
		e.err = problem(locus.ErrArgument, "set it to the launcher's number, or unset it", "%s=%q is not a number", name, s)
	}
	return n
}

func placeFrom(get func(string) string) (Place, error) {
	e := &env{get: get}
	p := Place{Size: 1, LocalSize: 1}
	switch {
	case e.has("RANK", "WORLD_SIZE"):
		p = Place{Rank: e.number("RANK", 0), Size: e.number("WORLD_SIZE", 1), LocalRank: e.number("LOCAL_RANK", 0), LocalSize: e.number("LOCAL_WORLD_SIZE", 0), Launcher: byTorch}
	case e.has("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
		p = Place{Rank: e.number("OMPI_COMM_WORLD_RANK", 0), Size: e.number("OMPI_COMM_WORLD_SIZE", 1),
			LocalRank: e.number("OMPI_COMM_WORLD_LOCAL_RANK", 0), LocalSize: e.number("OMPI_COMM_WORLD_LOCAL_SIZE", 0), Launcher: byOMPI}
	case e.has("PMI_RANK", "PMI_SIZE"):
		p = Place{Rank: e.number("PMI_RANK", 0), Size: e.number("PMI_SIZE", 1),
			LocalRank: e.number("MPI_LOCALRANKID", 0), LocalSize: e.number("MPI_LOCALNRANKS", 0), Launcher: byPMI}
	case e.has("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"): // of a step, not of the batch script
		p = Place{Rank: e.number("SLURM_PROCID", 0), Size: e.number("SLURM_STEP_NUM_TASKS", 1), LocalRank: e.number("SLURM_LOCALID", 0), Launcher: bySlurm}
		p.Addr, p.LocalSize = slurm(e, p.Size)
	case e.has("PET_NNODES") && e.has("PET_NODE_RANK"):
		// One process a node: with more, a launcher in the node makes RANK and the others of them.
		if n := e.get("PET_NPROC_PER_NODE"); n != "" && n != "1" && n != "auto" && n != "cpu" {
			return p, problem(locus.ErrArgument, "start the program with locus launch, which starts them", "PET_NPROC_PER_NODE=%s asks for several processes on each node", n)
		}
		nodes, _, _ := strings.Cut(get("PET_NNODES"), ":") // 2:4 with an elastic job
		p = Place{Rank: e.number("PET_NODE_RANK", 0), Size: (&env{get: func(string) string { return nodes }}).number("PET_NNODES", 1), LocalSize: 1, Launcher: byPET}
		if p.Size < 1 {
			return p, problem(locus.ErrArgument, "", "PET_NNODES=%q is not a number", get("PET_NNODES"))
		}
		if host, port := get("PET_MASTER_ADDR"), get("PET_MASTER_PORT"); host != "" && port != "" {
			p.Addr = net.JoinHostPort(host, port)
		}
	}
	if p.Launcher != "" && e.has("MASTER_ADDR", "MASTER_PORT") {
		port := e.number("MASTER_PORT", 0)
		if strings.EqualFold(get("TORCHELASTIC_USE_AGENT_STORE"), "true") {
			port++ // torchrun itself listens there
		}
		p.Addr = net.JoinHostPort(get("MASTER_ADDR"), strconv.Itoa(port))
	}
	p.Token = get("LOCUS_TOKEN")
	if e.err != nil {
		return Place{}, e.err
	}
	return p, p.check()
}

// check returns an error for an invalid place.
func (p Place) check() error {
	if p.Size < 1 || p.Rank < 0 || p.Rank >= p.Size || p.Size > 1<<16 || p.LocalRank < 0 || p.LocalSize < 0 || p.LocalSize > 0 && p.LocalRank >= p.LocalSize {
		who := p.Launcher
		if who == "" {
			who = "the program"
		}
		return problem(locus.ErrArgument, "ranks count from 0", "%s says that this is rank %d of %d, and %d of %d on this machine", who, p.Rank, p.Size, p.LocalRank, p.LocalSize)
	}
	return nil
}

// slurm returns rank 0's address in a step of Slurm's, and the number of ranks on this
// machine if it is the only one. The port follows from the step, so that all ranks find the
// same one.
func slurm(e *env, size int) (addr string, local int) {
	port := 20000 + (e.number("SLURM_JOB_ID", 0)*7+e.number("SLURM_STEP_ID", 0))%20000
	host := firstHost(e.get("SLURM_STEP_NODELIST"))
	if host == "" {
		host = firstHost(e.get("SLURM_JOB_NODELIST"))
	}
	if e.get("SLURM_STEP_NUM_NODES") == "1" || host == "" {
		host, local = "127.0.0.1", size
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), local
}

// firstHost returns the first name of a list in Slurm's way of writing: node[03-05,9],other.
func firstHost(list string) string {
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case ',':
			return list[:i]
		case '[':
			end := strings.IndexByte(list[i:], ']')
			if end < 0 {
				return ""
			}
			inner := list[i+1 : i+end]
			if cut := strings.IndexAny(inner, "-,"); cut >= 0 {
				inner = inner[:cut]
			}
			rest := list[i+end+1:]
			if cut := strings.IndexByte(rest, ','); cut >= 0 {
				rest = rest[:cut]
			}
			return list[:i] + inner + firstHost(rest)
		}
	}
	return list
}

// isLoopback reports whether an address can be reached from this machine alone.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
