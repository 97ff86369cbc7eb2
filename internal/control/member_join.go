package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// Join enters the group and returns when all ranks have. The error is a *[Fault].
func Join(ctx context.Context, cfg Config) (*Member, error) {
	m := &Member{cfg: cfg, known: map[uint64]bool{}, waiting: map[uint64]chan struct{}{}, notes: map[string]chan []byte{},
		over: make(chan struct{}), closed: make(chan struct{}), joined: make(chan struct{})}
	if err := m.join(ctx); err != nil {
		m.shut(0)
		return nil, err
	}
	return m, nil
}

func (m *Member) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.JoinWithin)
	defer cancel()
	if m.cfg.Rank == 0 {
		if err := m.openHub(); err != nil {
			return err
		}
	}
	me := hello{Purpose: purposeControl, Size: m.cfg.Size, Peer: Peer{Rank: m.cfg.Rank, PID: os.Getpid(), Info: m.cfg.Info}}
	me.Host, _ = os.Hostname() // a name for people; a rank without one still has its number
	if m.door != nil {
		me.Addr = m.cfg.Addr
	}
	if err := m.call(ctx, &me); err != nil {
		return err
	}
	go m.read()
	go m.beat()
	select {
	case <-m.joined:
		return nil
	case <-m.over:
		return m.Fault()
	case <-ctx.Done():
		// The hub names who is missing; give it a moment to say so.
		if m.hub != nil {
			m.hub.expire(m.cfg.JoinWithin)
		}
		select {
		case <-m.joined:
			return nil
		case <-m.over:
			return m.Fault()
		case <-time.After(2 * time.Second):
		}
		return &Fault{Unreachable, -1, "", fmt.Sprintf("the group was not complete within %v, and rank 0 at %s does not say who is missing", m.cfg.JoinWithin, m.cfg.Addr)}
	}
}

func (m *Member) openHub() error {
	l := m.cfg.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", m.cfg.Addr); err != nil {
			why := fmt.Sprintf("rank 0 cannot listen at %s: %v", m.cfg.Addr, err)
			if errors.Is(err, syscall.EADDRINUSE) {
				why += "; another program, or another rank 0, is there: choose another port"
			}
			return &Fault{Setup, 0, "", why}
		}
	}
	m.cfg.Addr = l.Addr().String()
	m.door = openDoor(l, m.cfg.Token)
	m.hub = newHub(m.cfg.Size, m.cfg.DeadAfter)
	m.door.hub = m.hub
	go m.door.serve()
	return nil
}

// call connects to the hub, again and again until it is there, and opens a door of this
// rank's own on the interface that leads to it.
func (m *Member) call(ctx context.Context, me *hello) error {
	var last error
	for {
		err := m.callOnce(ctx, me)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrToken) {
			return &Fault{Setup, 0, "", fmt.Sprintf("rank 0 at %s has another token than rank %d", m.cfg.Addr, m.cfg.Rank)}
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				last = err
			}
			return &Fault{Unreachable, 0, m.cfg.Addr, fmt.Sprintf("rank %d cannot reach rank 0 at %s within %v: %v", m.cfg.Rank, m.cfg.Addr, m.cfg.JoinWithin, last)}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (m *Member) callOnce(ctx context.Context, me *hello) error {
	var dialer net.Dialer
	once, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	c, err := dialer.DialContext(once, "tcp", Reroute(m.cfg.Rank, 0, m.cfg.Addr))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(once, func() { c.Close() })
	defer stop()
	if m.door == nil {
		host, _, err := net.SplitHostPort(c.LocalAddr().String())
		if err != nil {
			c.Close()
			return err
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			c.Close()
			return err
		}
		m.door = openDoor(l, m.cfg.Token)
		go m.door.serve()
	}
	me.Addr = m.door.Addr().String()
	if m.hub != nil { // as the others know it, if it listens on all interfaces
		me.Addr = c.RemoteAddr().String()
	}
	if err := introduceAs(c, m.cfg.Token, *me); err != nil {
		c.Close()
		return err
	}
	m.conn = c
	return nil
}
