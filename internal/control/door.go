package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// hello is the first frame of a connection.
type hello struct {
	Purpose string // "control", or what the rank wants to send
	Size    int    // of the group, as the rank sees it
	Peer
}

const (
	purposeControl = "control"
	maxRanks       = 1 << 16
)

func decodeHello(kind byte, body []byte) (h hello, err error) {
	if kind != frameHello {
		return h, fmt.Errorf("%w: a connection begins with a frame of type %d", errFrame, kind)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("%w: %w", errFrame, err)
	}
	if h.Size < 1 || h.Size > maxRanks || h.Rank < 0 || h.Rank >= h.Size {
		return h, fmt.Errorf("%w: rank %d of %d", errFrame, h.Rank, h.Size)
	}
	return h, nil
}

// door is where a rank takes connections. Those of the hub go to it, others wait until
// they are asked for.
type door struct {
	net.Listener
	token string
	hub   *hub // of rank 0
	slots chan struct{}

	mu      sync.Mutex
	closed  bool
	waiting map[string]chan net.Conn // by purpose and rank
}

// strangers is the most connections that may be in their handshake at a time.
const strangers = 128

func openDoor(l net.Listener, token string) *door {
	d := &door{Listener: l, token: token, slots: make(chan struct{}, strangers), waiting: map[string]chan net.Conn{}}
	return d
}

func (d *door) serve() {
	for {
		d.slots <- struct{}{}
		c, err := d.Accept()
		if err != nil {
			if d.isClosed() || errors.Is(err, net.ErrClosed) {
				return
			}
			<-d.slots
			time.Sleep(10 * time.Millisecond) // no file descriptors, for instance
			continue
		}
		go func() {
			defer func() { <-d.slots }()
			if err := d.take(c); err != nil {
				c.Close()
			}
		}()
	}
}

// take checks a new connection and hands it to whom it is for.
func (d *door) take(c net.Conn) error {
	if err := admit(c, d.token); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	h, err := readHello(c)
	if err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if h.Purpose == purposeControl {
		if d.hub == nil {
			return errors.New("this rank has no hub")
		}
		d.hub.join(c, h)
		return nil
	}
	ch, err := d.arrivals(h.Purpose, h.Rank)
	if err != nil {
		return err
	}
	select {
	case ch <- c:
		return nil
	default:
		return errors.New("there is such a connection already")
	}
}

func readHello(r io.Reader) (hello, error) {
	kind, body, err := readFrame(r)
	if err != nil {
		return hello{}, err
	}
	return decodeHello(kind, body)
}

// arrivals returns where connections of a rank for a purpose arrive.
func (d *door) arrivals(purpose string, rank int) (chan net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := fmt.Sprintf("%s/%d", purpose, rank)
	ch := d.waiting[key]
	if ch == nil {
		if len(d.waiting) > 4*maxRanks {
			return nil, errors.New("too many connections wait")
		}
		ch = make(chan net.Conn, 1)
		d.waiting[key] = ch
	}
	return ch, nil
}

// accept waits for a rank's connection for a purpose.
func (d *door) accept(ctx context.Context, purpose string, rank int) (net.Conn, error) {
	ch, err := d.arrivals(purpose, rank)
	if err != nil {
		return nil, err
	}
	select {
	case c := <-ch:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *door) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

func (d *door) close() {
	d.mu.Lock()
	d.closed = true
	waiting := d.waiting
	d.waiting = map[string]chan net.Conn{}
	d.mu.Unlock()
	d.Listener.Close()
	for _, ch := range waiting {
		select {
		case c := <-ch:
			c.Close()
		default:
		}
	}
}

// dial connects to a rank and says what for.
func dial(ctx context.Context, addr, token string, h hello) (net.Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err = introduceAs(c, token, h)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func introduceAs(c net.Conn, token string, h hello) error {
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if err := introduce(c, token); err != nil {
		return err
	}
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := writeFrame(c, frameHello, body); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}
