package ring

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/locusml/locus/internal/engine"
)

// pair is a connection for messages from one rank to another.
type pair struct {
	mu   sync.Mutex // one message at a time
	conn net.Conn
}

func (p *pair) close() {
	if c := p.conn; c != nil {
		c.Close()
	}
}

// pair returns the rank's end of a connection, which open makes when it is first used.
func (r *Ring) pair(key string) *pair {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pairs[key]
	if p == nil {
		p = &pair{}
		r.pairs[key] = p
	}
	return p
}

func (r *Ring) with(ctx context.Context, key string, open func() (net.Conn, error), do func(net.Conn) error) error {
	p := r.pair(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		c, err := open()
		if err != nil {
			return err
		}
		r.mu.Lock()
		p.conn = c
		r.mu.Unlock()
	}
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetDeadline(past) }) // a closed connection has ended as well
	defer stop()
	err := do(p.conn)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Send sends memory to a rank. It may return before the other side has it all.
func (r *Ring) Send(ctx context.Context, to int, data []byte, what string) error {
	return r.with(ctx, fmt.Sprint("to ", to), func() (net.Conn, error) { return r.m.Dial(ctx, to, "message") }, func(c net.Conn) error {
		bufs := net.Buffers{message{uint64(len(data)), what}.encode(), data}
		if _, err := bufs.WriteTo(c); err != nil {
			return fmt.Errorf("sending to %s: %w", r.m.Peer(to), err)
		}
		return nil
	})
}

// Recv receives what a rank sends.
func (r *Ring) Recv(ctx context.Context, from int, data []byte, what string) error {
	return r.with(ctx, fmt.Sprint("from ", from), func() (net.Conn, error) { return r.m.Accept(ctx, from, "message") }, func(c net.Conn) error {
		err := receiveMessage(c, data, what, r.m.Peer(from).String(), r.rank)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("receiving from %s: %w", r.m.Peer(from), err)
		}
		return err
	})
}

func receiveMessage(c io.Reader, data []byte, what, sender string, rank int) error {
	var head [messageSize]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	n, length, err := decodeMessage(&head)
	if err != nil {
		return err
	}
	theirs := make([]byte, n)
	if _, err := io.ReadFull(c, theirs); err != nil {
		return err
	}
	if string(theirs) != what[:min(len(what), maxWhat)] || length != uint64(len(data)) {
		return &engine.Mismatch{Msg: fmt.Sprintf("%s sends %q and rank %d expects %q", sender, theirs, rank, what)}
	}
	_, err = io.ReadFull(c, data)
	return err
}
