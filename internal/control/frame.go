package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is a head of headSize bytes and a body. The head has the frame's type, three
// zero bytes, and the length of the body.
const (
	headSize = 8
	maxBody  = 1 << 20 // of control frames: a roster of 4,000 ranks fits
)

// The types of frame.
const (
	frameHello  byte = iota + 1 // rank to rank: who I am and what the connection is for
	frameRoster                 // hub to rank: everybody is here
	frameEnter                  // rank to hub: I begin this collective
	frameGo                     // hub to rank: all have begun it, and they agree
	frameBeat                   // both: I am alive
	frameLate                   // rank to hub: this collective takes too long
	frameFail                   // rank to hub: I give up, and why
	frameAbort                  // hub to rank: the group is over, and why
	frameBye                    // rank to hub: I leave
	frameNote                   // both: a message that rank 0 passes to all
	lastFrame   = frameNote
)

// errFrame is the error of bytes that are not a frame.
var errFrame = errors.New("the other side does not speak this protocol")

// writeFrame writes a frame in one call.
func writeFrame(w io.Writer, kind byte, body []byte) error {
	_, err := w.Write(appendFrame(make([]byte, 0, headSize+len(body)), kind, body))
	return err
}

// appendFrame appends a frame to those in b.
func appendFrame(b []byte, kind byte, body []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

// readFrame reads a frame. The body is allocated as it arrives, so that a length alone
// takes no memory.
func readFrame(r io.Reader) (kind byte, body []byte, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if head[0] == 0 || head[0] > lastFrame || head[1]|head[2]|head[3] != 0 {
		return 0, nil, fmt.Errorf("%w: a frame begins with % x", errFrame, head[:4])
	}
	if n > maxBody {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, and the most is %d", errFrame, n, maxBody)
	}
	const step = 16 << 10
	for len(body) < int(n) {
		at := len(body)
		body = append(body, make([]byte, min(step, int(n)-at))...)
		if _, err := io.ReadFull(r, body[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
	}
	return head[0], body, nil
}

// entry is what a rank announces: its next collective.
type entry struct {
	seq  uint64
	hash uint64 // of the text
	wait bool   // the rank waits for frameGo
	text string // what it is, "" where the hub has seen it
}

const entrySize = 17

func (e entry) encode() []byte {
	b := make([]byte, entrySize, entrySize+len(e.text))
	binary.LittleEndian.PutUint64(b, e.seq)
	binary.LittleEndian.PutUint64(b[8:], e.hash)
	if e.wait {
		b[16] = 1
	}
	return append(b, e.text...)
}

func decodeEntry(b []byte) (entry, error) {
	if len(b) < entrySize || b[16] > 1 {
		return entry{}, fmt.Errorf("%w: an announcement of %d bytes", errFrame, len(b))
	}
	return entry{seq: binary.LittleEndian.Uint64(b), hash: binary.LittleEndian.Uint64(b[8:]), wait: b[16] == 1, text: string(b[entrySize:])}, nil
}
