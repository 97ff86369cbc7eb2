package control

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// hub is rank 0's part as the one that all talk to.
type hub struct {
	size      int
	deadAfter time.Duration

	mu     sync.Mutex
	lines  []*line // by rank, nil before it has come
	here   int     // how many have come
	gone   int     // how many have left or were given up
	rounds map[uint64]*round
	texts  map[uint64]string // what a hash stands for
	fault  *Fault            // why the group is over
	empty  chan struct{}     // closed when everybody has left
	ended  chan struct{}     // closed when there is a fault
}

// grace is how long the hub looks for the cause when a rank reports a failure: the
// neighbors of a rank that dies notice it as well.
const grace = 300 * time.Millisecond

func newHub(size int, deadAfter time.Duration) *hub {
	return &hub{size: size, deadAfter: deadAfter, lines: make([]*line, size), rounds: map[uint64]*round{}, texts: map[uint64]string{}, empty: make(chan struct{}), ended: make(chan struct{})}
}

// join takes a rank in. When all are here each gets the list.
func (h *hub) join(c net.Conn, who hello) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &line{Peer: who.Peer, conn: c, out: make(chan outgoing, outLimit)}
	go h.write(l)
	refuse := func(f *Fault) {
		l.send(frameAbort, encodeFault(f), func() { c.Close() })
		l.shutDown()
	}
	switch {
	case h.fault != nil:
		refuse(h.fault)
		return
	case who.Size != h.size:
		f := &Fault{Setup, who.Rank, who.Host, fmt.Sprintf("%s was started in a group of %d ranks, rank 0 in one of %d", who.Peer, who.Size, h.size)}
		refuse(f)
		h.end(f)
		return
	case h.lines[who.Rank] != nil:
		refuse(&Fault{Setup, who.Rank, who.Host, fmt.Sprintf("rank %d is here already: %s", who.Rank, h.lines[who.Rank].Peer)})
		return
	}
	h.lines[who.Rank] = l
	h.here++
	go h.read(l)
	go h.beat(l)
	if h.here < h.size {
		return
	}
	peers := make([]Peer, h.size)
	for i, l := range h.lines {
		peers[i] = l.Peer
	}
	body, err := json.Marshal(peers)
	if err != nil || len(body) > maxBody {
		h.end(&Fault{Setup, -1, "", fmt.Sprintf("the list of ranks does not fit a message (%d bytes, %v)", len(body), err)})
		return
	}
	for _, l := range h.lines {
		l.send(frameRoster, body, nil)
	}
}

// expire ends the group if not all ranks have come.
func (h *hub) expire(after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.here == h.size || h.fault != nil {
		return
	}
	var missing, here []string
	first := -1
	for r, l := range h.lines {
		if l != nil {
			here = append(here, l.Peer.String())
			continue
		}
		if first < 0 {
			first = r
		}
		missing = append(missing, fmt.Sprint(r))
	}
	word := "rank "
	if len(missing) > 1 {
		word = "ranks "
	}
	h.end(&Fault{Unreachable, first, "", fmt.Sprintf("%s of %d did not come within %v; here are %s", word+few(missing), h.size, after, few(here))})
}

// few joins the first of a list.
func few(l []string) string {
	const most = 8
	if len(l) > most {
		return strings.Join(l[:most], ", ") + fmt.Sprintf(" and %d more", len(l)-most)
	}
	return strings.Join(l, ", ")
}

func (h *hub) leaves() {
	h.gone++
	if h.gone == h.size {
		close(h.empty)
		return
	}
	h.check()
}

// check ends the group when somebody waits for a rank that has left.
func (h *hub) check() {
	for seq, r := range h.rounds {
		for _, l := range h.lines {
			if l != nil && l.left && l.at <= seq {
				h.end(&Fault{Left, l.Rank, l.Host, fmt.Sprintf("%s has left the group, and rank %d waits for it in collective %d, %s", l.Peer, r.rank, seq, h.text(r.first))})
				return
			}
		}
	}
}

func (h *hub) lost(l *line, err error) {
	where := "before its first collective"
	if l.at > 0 {
		where = fmt.Sprintf("the last collective that it has announced is number %d, %s", l.last.seq, h.text(l.last))
	}
	if isTimeout(err) {
		h.end(&Fault{Silent, l.Rank, l.Host, fmt.Sprintf("%s has not answered for %v; %s", l.Peer, h.deadAfter, where)})
		return
	}
	h.end(&Fault{Died, l.Rank, l.Host, fmt.Sprintf("%s has ended without leaving the group; %s", l.Peer, where)})
}

// failed ends the group because a rank gave up, after a moment in which the cause may
// show.
func (h *hub) failed(l *line, why string) {
	time.AfterFunc(grace, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.end(&Fault{Failed, l.Rank, l.Host, fmt.Sprintf("%s gave up: %s", l.Peer, why)})
	})
}

// end tells everybody that the group is over: the others first, because rank 0's process
// may end as soon as it knows.
func (h *hub) end(f *Fault) {
	if h.fault != nil {
		return
	}
	h.fault = f
	close(h.ended)
	body := encodeFault(f)
	var told sync.WaitGroup
	for _, l := range h.lines {
		if l != nil && l.Rank != 0 {
			told.Add(1)
			l.send(frameAbort, body, sync.OnceFunc(told.Done))
		}
	}
	first := h.lines[0]
	go func() {
		all := make(chan struct{})
		go func() { told.Wait(); close(all) }()
		select {
		case <-all:
		case <-time.After(time.Second):
		}
		if first != nil {
			h.mu.Lock()
			first.send(frameAbort, body, nil)
			h.mu.Unlock()
		}
	}()
}

// close ends the hub once everybody has left, or after a while.
func (h *hub) close(wait time.Duration) {
	select {
	case <-h.empty:
	case <-h.ended:
		time.Sleep(grace) // for what is on its way
	case <-time.After(wait):
		h.mu.Lock()
		h.end(&Fault{Left, 0, "", "rank 0 has left the group"})
		h.mu.Unlock()
		time.Sleep(grace)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault == nil {
		h.fault = &Fault{Left, 0, "", "rank 0 has left the group"}
		close(h.ended)
	}
	for _, l := range h.lines {
		if l != nil {
			l.shutDown()
			l.conn.Close()
		}
	}
}

func encodeFault(f *Fault) []byte {
	g := *f
	const most = 16 << 10
	if len(g.Msg) > most {
		g.Msg = g.Msg[:most]
	}
	body, err := json.Marshal(&g)
	if err != nil { // strings and a number
		panic(err)
	}
	return body
}

func decodeFault(body []byte) *Fault {
	f := &Fault{Rank: -1}
	if json.Unmarshal(body, f) != nil || !slices.Contains([]Cause{Unreachable, Died, Silent, Late, Differ, Failed, Left, Setup}, f.Cause) {
		return &Fault{Failed, -1, "", "the hub ended the group with a message that cannot be read"}
	}
	return f
}
