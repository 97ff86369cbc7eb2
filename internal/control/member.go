package control

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"sync"
	"time"
)

// Reroute returns the address at which a rank reaches another. Tests put a proxy there.
var Reroute = func(from, to int, addr string) string { return addr }

// Config says how a rank joins its group.
type Config struct {
	Rank, Size int
	Addr       string       // host:port of rank 0
	Listener   net.Listener // of rank 0, if it is open already; it listens at Addr then
	Token      string
	Info       string        // what the others are told of this rank
	JoinWithin time.Duration // how long ranks wait for each other at the start
	DeadAfter  time.Duration // a rank that says nothing for so long is given up
}

// Member is a rank's part in its group.
type Member struct {
	cfg   Config
	peers []Peer
	door  *door
	hub   *hub // of rank 0
	conn  net.Conn

	writing sync.Mutex // one frame at a time
	queued  []byte     // frames that go with the next one, or a moment later
	flushes bool       // that moment is set
	mu      sync.Mutex
	known   map[uint64]bool // hashes that the hub has texts of
	waiting map[uint64]chan struct{}
	notes   map[string]chan []byte
	fault   *Fault
	over    chan struct{} // closed when there is a fault
	closed  chan struct{}
	joined  chan struct{} // closed when the list of ranks has come
}

// Peers returns all ranks in order.
func (m *Member) Peers() []Peer { return m.peers }

// Peer returns a rank.
func (m *Member) Peer(rank int) Peer { return m.peers[rank] }

// Over returns a channel that is closed when the group has ended with a [Fault].
func (m *Member) Over() <-chan struct{} { return m.over }

// Fault returns why the group has ended, or nil.
func (m *Member) Fault() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == nil {
		return nil
	}
	return m.fault
}

func (m *Member) end(f *Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == nil {
		m.fault = f
		close(m.over)
	}
}

func (m *Member) read() {
	r := newReader(m.conn, m.cfg.DeadAfter)
	for {
		kind, body, err := r.next()
		select {
		case <-m.closed:
			return
		default:
		}
		switch {
		case err != nil:
			hub := Peer{Rank: 0}
			select {
			case <-m.joined:
				hub = m.peers[0]
			default:
			}
			if isTimeout(err) {
				m.end(&Fault{Silent, 0, hub.Host, fmt.Sprintf("%s has not answered for %v", hub, m.cfg.DeadAfter)})
			} else {
				m.end(&Fault{Died, 0, hub.Host, fmt.Sprintf("%s has ended without leaving the group", hub)})
			}
			return
		case kind == frameAbort:
			m.end(decodeFault(body))
			return
		case kind == frameRoster:
			if err := m.roster(body); err != nil {
				m.end(&Fault{Failed, 0, "", err.Error()})
				return
			}
		case kind == frameGo:
			if e, err := decodeEntry(body); err == nil {
				m.mu.Lock()
				if c := m.waiting[e.seq]; c != nil {
					close(c)
					delete(m.waiting, e.seq)
				}
				m.mu.Unlock()
			}
		case kind == frameNote:
			if key, text, err := decodeNote(body); err == nil {
				select {
				case m.note(key) <- text:
				default: // it was told before
				}
			}
		}
	}
}

func (m *Member) roster(body []byte) error {
	var peers []Peer
	if err := json.Unmarshal(body, &peers); err != nil {
		return err
	}
	if len(peers) != m.cfg.Size || m.peers != nil {
		return fmt.Errorf("rank 0 sent a list of %d ranks for a group of %d", len(peers), m.cfg.Size)
	}
	for i, p := range peers {
		if p.Rank != i {
			return fmt.Errorf("rank 0 sent a list in which rank %d stands at %d", p.Rank, i)
		}
	}
	m.peers = peers
	close(m.joined)
	return nil
}

func (m *Member) beat() {
	t := time.NewTicker(m.cfg.DeadAfter / 5)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_ = m.send(frameBeat, nil) // the reader notices a broken connection
		case <-m.over:
			return
		case <-m.closed:
			return
		}
	}
}

// send sends a frame, behind those that are queued.
func (m *Member) send(kind byte, body []byte) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.queued = appendFrame(m.queued, kind, body)
	return m.flush()
}

// flush sends what is queued. The member is locked for writing.
func (m *Member) flush() error {
	b := m.queued
	m.queued = m.queued[:0]
	if err := m.conn.SetWriteDeadline(time.Now().Add(m.cfg.DeadAfter)); err != nil {
		return err
	}
	_, err := m.conn.Write(b)
	return err
}

// What needs no answer is queued for so long, and for so many bytes: a call of the system for
// each collective would take longer than a small collective.
const (
	queuedFor  = 5 * time.Millisecond
	queuedMost = 8 << 10
)

// sendSoon sends a frame within a moment.
func (m *Member) sendSoon(kind byte, body []byte) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.queued = appendFrame(m.queued, kind, body)
	if len(m.queued) >= queuedMost {
		return m.flush()
	}
	if !m.flushes {
		m.flushes = true
		time.AfterFunc(queuedFor, func() {
			m.writing.Lock()
			defer m.writing.Unlock()
			m.flushes = false
			if len(m.queued) > 0 {
				_ = m.flush() // the reader notices a broken connection
			}
		})
	}
	return nil
}

// Enter announces the group's next collective: its number, counted from 0, and what it
// is in words. The first of its kind waits until all ranks have announced the same; later
// ones are compared while they run or a moment after.
func (m *Member) Enter(ctx context.Context, seq uint64, text string, wait bool) error {
	if err := m.Fault(); err != nil {
		return err
	}
	e := entry{seq: seq, hash: Hash(text)}
	m.mu.Lock()
	fresh := !m.known[e.hash]
	if fresh {
		if len(m.known) >= maxTexts {
			clear(m.known)
		}
		m.known[e.hash] = true
		e.text = text
	}
	e.wait = fresh || wait
	var c chan struct{}
	if e.wait {
		c = make(chan struct{})
		m.waiting[seq] = c
	}
	m.mu.Unlock()
	send := m.send
	if c == nil {
		send = m.sendSoon
	}
	if err := send(frameEnter, e.encode()); err != nil {
		return m.Blame(err)
	}
	if c == nil {
		return nil
	}
	select {
	case <-c:
		return nil
	case <-m.over:
		return m.Fault()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Hash returns the number that stands for a kind of collective.
func Hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// Blame returns why the group ended, if it has or does within a moment, else err: a
// connection breaks for a reason that the hub knows better.
func (m *Member) Blame(err error) error {
	select {
	case <-m.over:
		return m.Fault()
	case <-time.After(grace + 2*time.Second):
		return err
	}
}

// Fail tells the others that this rank gives up, and why.
func (m *Member) Fail(why string) {
	const most = 8 << 10
	_ = m.send(frameFail, []byte(why[:min(len(why), most)])) // without a connection they know already
}

// Late tells the hub that a collective has taken longer than d. It ends the group and
// names the rank that is missing.
func (m *Member) Late(seq uint64, d time.Duration) {
	_ = m.send(frameLate, entry{seq: seq, text: d.String()}.encode()) // without a connection there is a fault anyway
}

// LateWith tells the hub that a message from or to another rank has taken too long; what
// describes the message.
func (m *Member) LateWith(rank int, what string) {
	_ = m.send(frameLate, entry{seq: uint64(rank), wait: true, text: what}.encode()) // without a connection there is a fault anyway
}

// Dial connects to a rank for a purpose, for which that rank calls Accept.
func (m *Member) Dial(ctx context.Context, rank int, purpose string) (net.Conn, error) {
	h := hello{Purpose: purpose, Size: m.cfg.Size, Peer: Peer{Rank: m.cfg.Rank}}
	addr := m.peers[rank].Addr
	if rank == 0 { // as it was reached from here
		addr = m.cfg.Addr
	}
	c, err := dial(ctx, Reroute(m.cfg.Rank, rank, addr), m.cfg.Token, h)
	if err != nil {
		return nil, &Fault{Unreachable, rank, m.peers[rank].Host, fmt.Sprintf("rank %d cannot connect to %s at %s: %v", m.cfg.Rank, m.peers[rank], addr, err)}
	}
	return c, nil
}

// Accept waits for a rank's connection for a purpose.
func (m *Member) Accept(ctx context.Context, rank int, purpose string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-m.over:
			cancel(m.Fault())
		case <-stop:
		}
	}()
	c, err := m.door.accept(ctx, purpose, rank)
	if err == nil {
		return c, nil
	}
	if f := m.Fault(); f != nil {
		return nil, f
	}
	return nil, &Fault{Unreachable, rank, m.peers[rank].Host, fmt.Sprintf("%s has not connected to rank %d: %v", m.peers[rank], m.cfg.Rank, err)}
}

// Close leaves the group. Rank 0 waits a while until the others have left as well.
func (m *Member) Close() {
	m.mu.Lock()
	select {
	case <-m.closed:
		m.mu.Unlock()
		return
	default:
	}
	m.mu.Unlock()
	if m.Fault() == nil {
		_ = m.send(frameBye, nil) // without a connection the others know
	}
	m.shut(5 * time.Second)
}

func (m *Member) shut(wait time.Duration) {
	m.mu.Lock()
	select {
	case <-m.closed:
		m.mu.Unlock()
		return
	default:
		close(m.closed)
	}
	m.mu.Unlock()
	m.end(&Fault{Left, m.cfg.Rank, "", "this rank has left the group"})
	if m.hub != nil {
		m.hub.close(wait)
	}
	if m.conn != nil {
		m.conn.Close()
	}
	if m.door != nil {
		m.door.close()
	}
}
