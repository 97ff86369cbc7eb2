package ring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Between machines segments go over TCP: one goroutine sends and another receives.

var errStopped = errors.New("stopped")

// overTCP carries a flow out.
func (r *Ring) overTCP(ctx context.Context, f *flow) error {
	defer r.until(ctx)()
	arrived := make(chan struct{}, f.receives) // one for each segment; closed if one does not come
	sent := make(chan error, 1)
	go func() { sent <- r.sendAll(f, arrived) }()
	var err error
	for i := range f.receives {
		if err = r.receive(f, i); err != nil {
			close(arrived)
			r.expire()
			break
		}
		arrived <- struct{}{}
	}
	other := <-sent
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil || isExpired(err) && other != nil && other != errStopped && !isExpired(other) {
		err = other
	}
	return err
}

func (r *Ring) sendAll(f *flow, arrived chan struct{}) error {
	have := 0
	for i := range f.sends {
		for !f.may(i, have) {
			if _, ok := <-arrived; !ok {
				return errStopped
			}
			have++
		}
		h, b := f.out(i)
		var buf [headSize]byte
		h.encode(&buf)
		bufs := net.Buffers{buf[:], b}
		if _, err := bufs.WriteTo(r.next); err != nil {
			r.expire() // the other side would wait
			return r.sending(err)
		}
	}
	return nil
}

func (r *Ring) receive(f *flow, i int) error {
	h, p := f.in(i)
	var buf [headSize]byte
	if _, err := io.ReadFull(r.prev, buf[:]); err != nil {
		return r.receiving(err)
	}
	if err := h.check(&buf); err != nil {
		return err
	}
	got := p.dst
	if p.with != nil {
		got = r.room(0, len(p.dst))
	}
	if _, err := io.ReadFull(r.prev, got); err != nil {
		return r.receiving(err)
	}
	if p.with != nil {
		f.take(p, got)
	}
	return nil
}

func (r *Ring) sending(err error) error {
	return fmt.Errorf("sending to %s: %w", r.m.Peer((r.rank+1)%r.size), err)
}

func (r *Ring) receiving(err error) error {
	return fmt.Errorf("receiving from %s: %w", r.m.Peer(r.before()), err)
}

// until makes the end of a context break off what waits for the network. The function that
// it returns undoes that.
func (r *Ring) until(ctx context.Context) (stop func()) {
	cancel := context.AfterFunc(ctx, r.expire)
	return func() { cancel() }
}

var past = time.Unix(1, 0)

func (r *Ring) expire() {
	for _, c := range []net.Conn{r.next, r.prev} {
		if c != nil {
			_ = c.SetDeadline(past) // a closed connection has ended as well
		}
	}
}

func isExpired(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
