package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// head stands before each segment. Both sides know what comes next; the head is there to
// notice when they do not.
type head struct {
	step, segment uint32
	seq           uint64 // of the collective
	kind          uint64 // what it is, as a number
	length        uint32
}

const (
	headSize = 32
	magic    = 0x3243474c // "LGC2": the protocol and its version
)

var errOutOfStep = errors.New("the ranks are out of step")

func (h head) encode(b *[headSize]byte) {
	binary.LittleEndian.PutUint32(b[0:], magic)
	binary.LittleEndian.PutUint32(b[4:], h.step)
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint64(b[16:], h.kind)
	binary.LittleEndian.PutUint32(b[24:], h.segment)
	binary.LittleEndian.PutUint32(b[28:], h.length)
}

func decodeHead(b *[headSize]byte) (head, error) {
	if m := binary.LittleEndian.Uint32(b[0:]); m != magic {
		return head{}, fmt.Errorf("%w: a segment begins with %08x", errOutOfStep, m)
	}
	return head{step: binary.LittleEndian.Uint32(b[4:]), seq: binary.LittleEndian.Uint64(b[8:]), kind: binary.LittleEndian.Uint64(b[16:]),
		segment: binary.LittleEndian.Uint32(b[24:]), length: binary.LittleEndian.Uint32(b[28:])}, nil
}

// check compares the head that has arrived with the one that was to come.
func (h head) check(b *[headSize]byte) error {
	got, err := decodeHead(b)
	if err != nil {
		return err
	}
	if got.kind != h.kind {
		return fmt.Errorf("%w: data of another kind of collective has come", errOutOfStep)
	}
	if got != h {
		return fmt.Errorf("%w: collective %d, step %d, segment %d of %d bytes has come, not %d, %d, %d of %d", errOutOfStep,
			got.seq, got.step, got.segment, got.length, h.seq, h.step, h.segment, h.length)
	}
	return nil
}

// message stands before the memory of a Send.
type message struct {
	length uint64
	what   string
}

const (
	messageSize = 16
	maxWhat     = 4 << 10
)

func (m message) encode() []byte {
	what := m.what[:min(len(m.what), maxWhat)]
	b := make([]byte, messageSize, messageSize+len(what))
	binary.LittleEndian.PutUint32(b[0:], magic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(what)))
	binary.LittleEndian.PutUint64(b[8:], m.length)
	return append(b, what...)
}

// decodeMessage returns the length of the description that follows, and of the memory
// behind it.
func decodeMessage(b *[messageSize]byte) (what int, length uint64, err error) {
	n := binary.LittleEndian.Uint32(b[4:])
	if binary.LittleEndian.Uint32(b[0:]) != magic || n > maxWhat {
		return 0, 0, fmt.Errorf("%w: a message begins with % x", errOutOfStep, b[:8])
	}
	return int(n), binary.LittleEndian.Uint64(b[8:]), nil
}
