package control

import (
	"fmt"
	"net"
	"time"
)

// line is the hub's end of a rank's connection.
type line struct {
	Peer
	conn net.Conn
	out  chan outgoing
	left bool   // it said goodbye
	shut bool   // nothing more is sent
	last entry  // what it announced last
	at   uint64 // the number of what it announces next
}

type outgoing struct {
	kind byte
	body []byte
	sent func() // called when it was written, or cannot be
}

// send queues a frame. The hub is locked.
func (l *line) send(kind byte, body []byte, sent func()) {
	if l.shut {
		if sent != nil {
			sent()
		}
		return
	}
	select {
	case l.out <- outgoing{kind, body, sent}:
	default: // it does not read; it will be found silent
		if sent != nil {
			sent()
		}
	}
}

// shutDown ends the goroutine that writes, behind what is queued. The hub is locked.
func (l *line) shutDown() {
	if !l.shut {
		l.shut = true
		close(l.out)
	}
}

// write sends what is queued for a rank.
func (h *hub) write(l *line) {
	broken := false
	for o := range l.out {
		if !broken {
			_ = l.conn.SetWriteDeadline(time.Now().Add(h.deadAfter)) // a closed connection fails below
			broken = writeFrame(l.conn, o.kind, o.body) != nil
		}
		if o.sent != nil {
			o.sent()
		}
	}
}

// beat tells a rank that the hub is alive.
func (h *hub) beat(l *line) {
	t := time.NewTicker(h.deadAfter / 5)
	defer t.Stop()
	for range t.C {
		h.mu.Lock()
		over := h.fault != nil || l.left
		if !over {
			l.send(frameBeat, nil, nil)
		}
		h.mu.Unlock()
		if over {
			return
		}
	}
}

// read takes what a rank says until it leaves, dies or falls silent.
func (h *hub) read(l *line) {
	r := newReader(l.conn, h.deadAfter)
	for {
		kind, body, err := r.next()
		h.mu.Lock()
		if h.fault != nil || l.left {
			h.mu.Unlock()
			return
		}
		switch {
		case err != nil:
			h.lost(l, err)
		case kind == frameEnter:
			h.enter(l, body)
		case kind == frameLate:
			h.late(l, body)
		case kind == frameFail:
			h.failed(l, string(body))
		case kind == frameNote:
			for _, other := range h.lines {
				if other != nil {
					other.send(frameNote, body, nil)
				}
			}
		case kind == frameBye:
			l.left = true
			h.leaves()
		case kind != frameBeat:
			h.end(&Fault{Failed, l.Rank, l.Host, fmt.Sprintf("%s sent a frame of type %d, which makes no sense here", l.Peer, kind)})
		}
		h.mu.Unlock()
	}
}
