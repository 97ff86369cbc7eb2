package collective

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/mpi"
)

// Split makes smaller groups of g's ranks: those that pass the same color become one, in the
// order of their ranks. All ranks of g call it; one that passes -1 gets nil. So ranks can
// stand in rows and columns, as in data-parallel training of a network whose layers are
// spread over several ranks:
//
//	row, err := g.Split(ctx, g.Rank()/4)
//	column, err := g.Split(ctx, g.Rank()%4)
//
// The groups are used and closed as g is; a fault in one does not end the others.
func (g *Group) Split(ctx context.Context, color int) (*Group, error) {
	if !g.ok() {
		return nil, newError("Split", gate.Made(false, howMade))
	}
	if err := gate.Count("the color", color, -1, 1<<30); err != nil {
		return nil, newError("Split", err)
	}
	colors, err := g.AllGather(ctx, locus.CPU().From([]int64{int64(color)})).Wait()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.splits++
	at := fmt.Sprintf("split %d color %d", g.splits, color)
	g.mu.Unlock()
	rank, size := 0, 0
	for r, c := range locus.ToSlice[int64](colors) {
		if c == int64(color) {
			if r == g.rank {
				rank = size
			}
			size++
		}
	}
	part, err := g.eng.split(ctx, at, color, rank, size, g.timeout)
	if err != nil {
		return nil, newError("Split", err)
	}
	if color < 0 {
		return nil, nil
	}
	n := newGroup(rank, size, g.timeout)
	n.eng = part
	return n, nil
}

func (e *localEngine) split(_ context.Context, at string, color, rank, size int, _ time.Duration) (groupEngine, error) {
	if color < 0 {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.parts[at]
	if h == nil {
		h = newHall(size)
		if e.parts == nil {
			e.parts = map[string]*hall{}
		}
		e.parts[at] = h
	}
	if h.taken++; h.taken == size { // all have it
		delete(e.parts, at)
	}
	return &localEngine{hall: h, rank: rank}, nil
}

func (e *remote) split(ctx context.Context, at string, color, rank, size int, timeout time.Duration) (groupEngine, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.JoinWithin)
	defer cancel()
	var host engine.Host
	if c, ok := e.host.(*mpi.Comm); ok { // all ranks must call it, those without a group too
		part, err := c.Split(ctx, color, e.rank)
		if err != nil {
			return nil, err
		}
		host = part
	}
	if color < 0 {
		return nil, nil
	}
	if size == 1 {
		if host != nil {
			host.Close(false)
		}
		return &localEngine{hall: newHall(1)}, nil
	}
	cfg := e.cfg
	cfg.Rank, cfg.Size, cfg.Listener = rank, size, nil
	if rank == 0 {
		ip, _, err := net.SplitHostPort(e.member.Peer(e.rank).Addr)
		if err != nil {
			return nil, err
		}
		if cfg.Listener, err = net.Listen("tcp", net.JoinHostPort(ip, "0")); err != nil {
			return nil, err
		}
		if err := e.member.Tell(at, []byte(cfg.Listener.Addr().String())); err != nil {
			return nil, err
		}
	}
	addr, err := e.member.Hear(ctx, at)
	if err != nil {
		return nil, err
	}
	cfg.Addr = string(addr)
	return newRemote(ctx, cfg, host, e.lib, timeout)
}

// newRemote joins the ranks of a group over TCP. host moves main memory, a ring if it is nil.
func newRemote(ctx context.Context, cfg control.Config, host engine.Host, lib *ncclLibrary, timeout time.Duration) (*remote, error) {
	m, err := control.Join(ctx, cfg)
	if err == nil && host == nil {
		if host, err = openRing(ctx, m, cfg.Rank); err != nil {
			m.Fail(err.Error())
			err = m.Blame(err)
			m.Close()
		}
	}
	if err != nil {
		if host != nil {
			host.Close(true)
		}
		return nil, err
	}
	e := &remote{member: m, host: host, rank: cfg.Rank, size: cfg.Size, cfg: cfg, lib: lib}
	if lib != nil {
		e.cards, e.whyNot = newCards(m, lib, cfg.Rank, timeout)
	}
	return e, nil
}
