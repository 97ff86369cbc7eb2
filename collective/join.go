package collective

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/nccl"
	"github.com/locusml/locus/internal/ring"
)

// Join makes this process a rank of the group of all that were started together, and returns
// when they are all there. Its rank is what [FromEnv] finds, unless [At] says otherwise. A
// process that no launcher started is a group of its own, so the same program runs alone.
//
// The ranks connect to rank 0's address and to each other over TCP. They listen on the
// interface that leads there: on 127.0.0.1 if rank 0's address is, on no other. Beyond one
// machine they need a token that all know: LOCUS_TOKEN.
func Join(ctx context.Context, options ...Option) (*Group, error) {
	if err := gate.Given("the context", ctx); err != nil {
		return nil, newError("Join", err)
	}
	s, err := newSettings(options)
	if err != nil {
		return nil, newError("Join", err)
	}
	p := s.place
	if p == nil {
		found, err := FromEnv()
		if err != nil {
			return nil, err
		}
		p = &found
	}
	g, err := join(ctx, *p, s)
	if err != nil {
		return nil, newError("Join", err)
	}
	return g, nil
}

// engines are the names that programs may ask for.
var engines = []string{"auto", "ring", "mpi", "nccl"}

// chosen returns the engine that the program or the environment asks for.
func (s *settings) chosen() (string, error) {
	name, who := s.engine, "collective.Engine"
	if name == "" {
		name, who = strings.ToLower(strings.TrimSpace(os.Getenv("LOCUS_COLLECTIVE"))), "LOCUS_COLLECTIVE"
	}
	if name == "" {
		name = "auto"
	}
	if !slices.Contains(engines, name) {
		return "", problem(locus.ErrArgument, "choose one of "+strings.Join(engines, ", "), "%s asks for an engine %q", who, name)
	}
	return name, nil
}

func join(ctx context.Context, p Place, s *settings) (*Group, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	name, err := s.chosen()
	if err != nil {
		return nil, err
	}
	if p.Size == 1 {
		return local(1, s.timeout)[0], nil
	}
	limit, cancel := context.WithTimeout(ctx, s.joinWithin)
	defer cancel()
	cfg := control.Config{Rank: p.Rank, Size: p.Size, Addr: p.Addr, Token: p.Token, JoinWithin: s.joinWithin, DeadAfter: s.deadAfter}
	var host engine.Host
	if byMPI := p.Launcher == byOMPI || p.Launcher == byPMI; name == "mpi" || name != "ring" && byMPI || byMPI && p.Addr == "" {
		c, err := openMPI(limit, p, &cfg)
		switch {
		case err == nil && name != "ring":
			host = c
		case err == nil: // it has told the ranks where they meet
			defer c.Close(false)
		case name == "mpi" || p.Addr == "":
			return nil, err
		}
	}
	lib, whyNot := loadNCCL(name)
	if lib == nil && name == "nccl" {
		return nil, problem(locus.ErrUnsupported, "unset LOCUS_COLLECTIVE, which uses it where all ranks have it", "%s", whyNot)
	}
	cfg.Info = ncclInfo(lib)
	if err := checkAddr(cfg.Addr, cfg.Token, p); err != nil {
		return nil, err
	}
	e, err := newRemote(limit, cfg, host, lib, s.timeout)
	if err != nil {
		return nil, err
	}
	if lib == nil {
		e.whyNot = whyNot
	}
	g := newGroup(p.Rank, p.Size, s.timeout)
	g.eng = e
	return g, nil
}

// loadNCCL returns NCCL if there is a GPU for it and the engine that was chosen leaves it
// room, else why not.
var loadNCCL = func(name string) (*nccl.Library, string) { // tests have others
	switch {
	case name == "ring" || name == "mpi":
		return nil, name + " was asked for"
	case locus.WhyNoGPU() != nil:
		return nil, "there is no NVIDIA GPU"
	}
	l, err := nccl.Load()
	if err != nil {
		return nil, err.Error()
	}
	return l, ""
}

// openRing is ring.Open as an interface, without a nil pointer in it.
func openRing(ctx context.Context, m *control.Member, rank int) (engine.Host, error) {
	r, err := ring.Open(ctx, m, rank)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func checkAddr(addr, token string, p Place) error {
	if addr == "" {
		return problem(locus.ErrArgument, "set MASTER_ADDR and MASTER_PORT to the same host and free port on all ranks", "rank %d of %d does not know rank 0's address", p.Rank, p.Size)
	}
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || !isPort(port) {
		return problem(locus.ErrArgument, "write a host and a port, such as 10.0.0.1:29500", "rank 0's address %q is not a host and a port", addr)
	}
	if token == "" && !isLoopback(addr) {
		return problem(locus.ErrArgument, "set LOCUS_TOKEN to the same secret on all ranks, or use locus launch, which does", "ranks that connect beyond one machine (%s) need a token", addr)
	}
	return nil
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 1<<16
}
