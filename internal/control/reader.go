package control

import (
	"bufio"
	"errors"
	"net"
	"os"
	"time"
)

// reader reads frames from a peer that is alive: something must come at least every
// deadAfter.
type reader struct {
	conn      net.Conn
	r         *bufio.Reader
	deadAfter time.Duration
}

func newReader(c net.Conn, deadAfter time.Duration) *reader {
	return &reader{c, bufio.NewReader(c), deadAfter}
}

// next returns the next frame.
func (r *reader) next() (kind byte, body []byte, err error) {
	if err := r.wait(r.deadAfter); err != nil {
		if !isTimeout(err) {
			return 0, nil, err
		}
		// Perhaps this process was the one that stood still, and the frame is there.
		if err := r.wait(200 * time.Millisecond); err != nil {
			return 0, nil, err
		}
	}
	if err := r.conn.SetReadDeadline(time.Now().Add(r.deadAfter)); err != nil {
		return 0, nil, err
	}
	return readFrame(r.r)
}

// wait waits for the first byte of a frame.
func (r *reader) wait(d time.Duration) error {
	if err := r.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	_, err := r.r.Peek(1)
	return err
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}
