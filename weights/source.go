package weights

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// source is where a file's bytes come from.
type source interface {
	io.ReaderAt
	Size() int64
	// Bytes returns n bytes at off, which are in range; they are valid until
	// Close, and are not written to.
	Bytes(off, n int64) ([]byte, error)
	Close() error
}

// plain reads what it is asked for.
type plain struct {
	r     io.ReaderAt
	size  int64
	close func() error
}

func (p *plain) ReadAt(b []byte, off int64) (int, error) { return p.r.ReadAt(b, off) }
func (p *plain) Size() int64                             { return p.size }

func (p *plain) Bytes(off, n int64) ([]byte, error) {
	if n > math.MaxInt {
		return nil, errors.New("larger than this machine's address space")
	}
	b := make([]byte, n)
	if got, err := p.r.ReadAt(b, off); got < len(b) {
		return nil, fmt.Errorf("reading %d bytes at %d: %w", n, off, err)
	}
	return b, nil
}

func (p *plain) Close() error {
	if p.close == nil {
		return nil
	}
	return p.close()
}
