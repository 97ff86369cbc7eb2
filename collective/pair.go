package collective

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/locusml/locus/internal/nccl"
)

// Messages of GPU tensors go from card to card by NCCL if both sides say so first. NCCL's
// kernels wait on the card for the other side, so nothing is queued before it is certain that
// they will not wait long, whatever else the two ranks do and in whatever order:
//
//   - Each pair of ranks has a communicator and a stream (a lane of the card) of its own for
//     each direction, so that the order of calls matters within a direction alone.
//   - The sender offers a message when its tensor is computed. The receiver answers when the
//     memory for it is free. Both counted from the call: what a program queues later does not
//     matter.
//   - Then both sides take their cards for the message alone (traffic), one after the other in
//     an order that is the same for all ranks, so that no two wait for each other's card.
//   - Whatever speaks against it makes the message go through main memory, as messages of
//     CPU tensors do: a tensor on a CPU or on another card than the pair's, a shape or type
//     that differs (Recv then says how), a card with collectives that do not end, a receiver
//     whose card is behind such.
//
// The words travel over a connection for each direction, which the sender opens:
//
//	sender                          receiver
//	no                                             through main memory
//	offer: shape, type, card, id
//	                                here           Recv was called
//	                                yes or no      taken already, if its card comes first
//	yes or no                                      the sender's card is taken
//	                                yes or no      if the receiver's card comes second
//
// A sender that hears no "here" in time says no at once: so a Send that main memory would
// take in does not wait for the receiver's call. It skips that offer's words later.

const (
	// eager is the size up to which a message goes through main memory at once, which is as
	// fast: bench/message.
	eager = 256 << 10
	// patience is how long a message of at most buffered bytes waits for the receiver's call.
	// Main memory takes about so much in without one; a larger message waits anyway.
	patience = 100 * time.Millisecond
	buffered = 4 << 20
	// maxWord is the longest word.
	maxWord = 16 << 10
)

// pair is one direction of messages between this rank and another, as this rank sees it. The
// jobs of its queue use it, one at a time.
type pair struct {
	c     *cards
	peer  int
	sends bool

	held
	in    *bufio.Reader
	skip  int    // words that are not wanted any more
	id    []byte // of the next communicator that the sender makes
	taken bool   // the card is taken for the message that is being agreed on
}

// held is what a pair has until the group ends. It changes under the lock of pairs.
type held struct {
	conn net.Conn
	on   card // where the communicator is; nil before there is one
	comm *nccl.Comm
	lane int
}

// word is what the two sides say.
type word struct {
	Yes   bool   `json:",omitempty"`
	What  string `json:",omitempty"` // the tensor: shape and type
	Place string `json:",omitempty"` // its card: see placeOf
	ID    []byte `json:",omitempty"` // of the communicator to make; none if there is one
}

func writeWord(w io.Writer, x word) error {
	body, err := json.Marshal(x)
	if err == nil && len(body) > maxWord {
		err = fmt.Errorf("a word of %d bytes about a message", len(body))
	}
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func readWord(r io.Reader) (x word, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return x, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxWord {
		return x, fmt.Errorf("a word of %d bytes about a message", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return x, err
	}
	return x, json.Unmarshal(body, &x)
}

// open connects the two ranks.
func (p *pair) open(ctx context.Context) (err error) {
	if p.conn != nil {
		return nil
	}
	var c net.Conn
	if p.sends {
		c, err = p.c.member.Dial(ctx, p.peer, "cards")
	} else {
		c, err = p.c.member.Accept(ctx, p.peer, "cards")
	}
	if err != nil {
		return err
	}
	p.c.pairs.Lock()
	defer p.c.pairs.Unlock()
	p.conn, p.in = c, bufio.NewReader(c)
	return nil
}

var past = time.Unix(1, 0)

// agree decides with the other side how a job goes: by NCCL if it reports true. Then the
// card is taken for it, and the pair has its communicator.
func (p *pair) agree(ctx context.Context, j *job) (ok bool, err error) {
	if err := p.open(ctx); err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetDeadline(past) }) // a closed connection has ended as well
	defer stop()
	var id []byte
	if p.sends {
		ok, id, err = p.offer(ctx, j)
	} else {
		ok, id, err = p.answer(ctx, j)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	} else if err != nil {
		err = fmt.Errorf("agreeing on a message with %s: %w", p.c.member.Peer(p.peer), err)
	} else if ok && p.comm == nil {
		err = p.start(ctx, j.ready.on, id)
	}
	if p.taken && (!ok || err != nil) {
		trafficOf(j.ready.on).messageDone()
	}
	p.taken = false
	return ok, err
}

// offer is the sender's side.
func (p *pair) offer(ctx context.Context, j *job) (ok bool, id []byte, err error) {
	r := j.ready
	if r == nil || p.on != nil && p.on != r.on {
		return false, nil, writeWord(p.conn, word{})
	}
	if _, err := r.free(ctx, false); err != nil {
		return false, nil, err
	}
	w := word{Yes: true, What: j.text, Place: p.c.placeOf(r.on)}
	if p.comm == nil {
		if p.id == nil {
			if p.id, err = p.c.lib.NewID(); err != nil {
				return false, nil, err
			}
		}
		w.ID = p.id
	}
	trafficOf(r.on).lull(ctx)
	if err := writeWord(p.conn, w); err != nil {
		return false, nil, err
	}
	here, err := p.hear(ctx, j.x.Bytes() <= buffered)
	if err != nil {
		return false, nil, err
	}
	if !here {
		p.skip += 2
		return false, nil, writeWord(p.conn, word{})
	}
	a, err := readWord(p.in)
	if err != nil {
		return false, nil, err
	}
	if a.Yes {
		if ok, err = p.take(ctx, r.on); err != nil {
			return false, nil, err
		}
	}
	if err := writeWord(p.conn, word{Yes: ok}); err != nil || !ok {
		return false, nil, err
	}
	if w.Place < a.Place {
		last, err := readWord(p.in)
		if err != nil || !last.Yes {
			return false, nil, err
		}
	}
	p.id = nil
	return true, w.ID, nil
}

// hear waits for the receiver's call, and reports false if it is impatient and the call does
// not come.
func (p *pair) hear(ctx context.Context, impatient bool) (bool, error) {
	for ; ; p.skip-- {
		if impatient {
			if came, err := p.comes(ctx); err != nil || !came {
				return false, err
			}
		}
		if _, err := readWord(p.in); err != nil {
			return false, err
		}
		if p.skip == 0 {
			return true, nil
		}
	}
}

// comes reports whether a word begins to come before patience ends.
func (p *pair) comes(ctx context.Context) (bool, error) {
	_ = p.conn.SetReadDeadline(time.Now().Add(patience)) // a closed connection fails below
	_, err := p.in.Peek(1)
	_ = p.conn.SetReadDeadline(time.Time{})
	if ctx.Err() != nil { // its deadline was just undone
		return false, ctx.Err()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// answer is the receiver's side.
func (p *pair) answer(ctx context.Context, j *job) (ok bool, id []byte, err error) {
	w, err := readWord(p.in)
	if err != nil || !w.Yes {
		return false, nil, err
	}
	if err := writeWord(p.conn, word{Yes: true}); err != nil {
		return false, nil, err
	}
	r, place := j.ready, ""
	if ok = r != nil && w.What == j.text && (p.on == nil || p.on == r.on) && (p.comm == nil) == (len(w.ID) > 0); ok {
		place = p.c.placeOf(r.on)
		ok = clash(w.Place, place) == ""
	}
	if ok {
		if ok, err = r.free(ctx, r.behind); err != nil {
			return false, nil, err
		}
	}
	first := place < w.Place
	if ok {
		trafficOf(r.on).lull(ctx)
		if first {
			if ok, err = p.take(ctx, r.on); err != nil {
				return false, nil, err
			}
		}
	}
	if err := writeWord(p.conn, word{Yes: ok, Place: place}); err != nil {
		return false, nil, err
	}
	last, err := readWord(p.in)
	if err != nil || !ok || !last.Yes {
		return false, nil, err
	}
	if !first {
		if ok, err = p.take(ctx, r.on); err != nil {
			return false, nil, err
		}
		err = writeWord(p.conn, word{Yes: ok})
	}
	return ok, w.ID, err
}

// take takes the card for the message that is being agreed on.
func (p *pair) take(ctx context.Context, d card) (ok bool, err error) {
	p.taken, err = trafficOf(d).take(ctx)
	return p.taken, err
}

// start makes the communicator, as the other side does at the same time.
func (p *pair) start(ctx context.Context, d card, id []byte) error {
	lane, err := d.OpenLane()
	if err != nil {
		return cardError("Send", err)
	}
	rank := 0 // sends
	if !p.sends {
		rank = 1
	}
	comm, err := p.c.start(ctx, d, func() (*nccl.Comm, error) { return p.c.lib.Init(id, rank, 2) })
	if err != nil {
		d.CloseLane(lane)
		return err
	}
	p.c.pairs.Lock()
	p.on, p.comm, p.lane = d, comm, lane
	over := p.c.member.Fault() != nil
	p.c.pairs.Unlock()
	if over { // abort was here before
		p.held.abort()
	}
	return nil
}

// abort ends what kernels on the card wait for.
func (h held) abort() {
	if h.comm != nil {
		_ = h.on.WithContext(func() error { h.comm.Abort(); return nil }) // a lost card has ended it
	}
}

// destroy ends the communicator when everything is done.
func (h held) destroy() {
	if h.comm != nil {
		_ = h.on.WithContext(func() error { h.comm.Destroy(); return nil }) // a lost card has ended it
	}
}

// close ends the rest.
func (h held) close() {
	if h.conn != nil {
		h.conn.Close()
	}
	if h.comm != nil {
		h.on.CloseLane(h.lane)
	}
}

// pairs are a group's, made as they are used.
type pairs struct {
	sync.Mutex
	all    map[string]*pair
	flying int // messages on their way
}

// pair returns a direction of messages.
func (c *cards) pair(peer int, sends bool) *pair {
	c.pairs.Lock()
	defer c.pairs.Unlock()
	key := fmt.Sprint(peer, sends)
	p := c.pairs.all[key]
	if p == nil {
		p = &pair{c: c, peer: peer, sends: sends}
		if c.pairs.all == nil {
			c.pairs.all = map[string]*pair{}
		}
		c.pairs.all[key] = p
	}
	return p
}

// each calls f for what every pair has, at the same time: NCCL may wait in one for another.
func (c *cards) each(f func(h held)) {
	c.pairs.Lock()
	var all []held
	for _, p := range c.pairs.all {
		all = append(all, p.held)
	}
	c.pairs.Unlock()
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() { f(h) })
	}
	wg.Wait()
}
