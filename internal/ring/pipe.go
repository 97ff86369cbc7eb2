package ring

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// pipe is a queue of bytes in memory that two processes share: one writes, the other reads.
// What is written is a multiple of pipeAlign long, so that elements are aligned.
type pipe struct {
	c      *pipeControl
	data   []byte
	stream int // so many pieces more are written past the caches
	warm   int // so many ordinary copies more are not judged
}

// pipeControl is the beginning of the memory. What one side writes often is on a cache line
// of its own.
type pipeControl struct {
	nonce        [16]byte // tells that it is the right memory
	_            [112]byte
	written      atomic.Uint64 // bytes so far
	_            [120]byte
	read         atomic.Uint64
	_            [120]byte
	writerSleeps atomic.Uint32 // 1: wake it when there is room
	_            [124]byte
	readerSleeps atomic.Uint32 // 1: wake it when something was written
}

const (
	pipeAlign = 64
	// pipeControlSize is where the data begins.
	pipeControlSize = 4096
	// pipeSize is how far the writer may be ahead. All-reduces of 0.8 and 8 MB take longer with
	// half and with twice of it.
	pipeSize = 1 << 20
	// pipeStep is after how many bytes the other side is told of them.
	pipeStep = 128 << 10
)

func newPipe(memory []byte) *pipe {
	return &pipe{c: (*pipeControl)(unsafe.Pointer(&memory[0])), data: memory[pipeControlSize:]}
}

// room returns free memory of up to n bytes, in one piece; nothing if there is none yet.
func (p *pipe) room(n int) ([]byte, error) {
	w := p.c.written.Load()
	used := w - p.c.read.Load()
	if used > uint64(len(p.data)) {
		return nil, fmt.Errorf("%w: shared memory has %d bytes in a queue of %d", errOutOfStep, used, len(p.data))
	}
	return p.piece(w, min(n, len(p.data)-int(used))), nil
}

// there returns what was written and not read yet, up to n bytes, in one piece.
func (p *pipe) there(n int) ([]byte, error) {
	r := p.c.read.Load()
	used := p.c.written.Load() - r
	if used > uint64(len(p.data)) {
		return nil, fmt.Errorf("%w: shared memory has %d bytes in a queue of %d", errOutOfStep, used, len(p.data))
	}
	return p.piece(r, min(n, int(used))), nil
}

// piece returns the n bytes at a position, or those up to the end of the memory.
func (p *pipe) piece(at uint64, n int) []byte {
	from := int(at % uint64(len(p.data)))
	return p.data[from:min(from+n, len(p.data))]
}

// An ordinary store fetches the line that it overwrites from the cache of the core that has
// read it. Where that is near, it is the fastest way; between parts of a processor that have
// no cache in common, or between processors, it is several times slower than to write past
// the caches. Which of the two it is shows in the time.
const (
	streamMin  = 16 << 10 // smaller pieces are copied
	streamSlow = 4        // bytes per nanosecond below which a copy is slow
	streamFor  = 128      // pieces, before ordinary copies are tried again
)

// fill copies src to dst, which is as long and was returned by room.
func (p *pipe) fill(dst, src []byte) {
	switch {
	case len(src) < streamMin:
		copy(dst, src)
	case p.stream > 0:
		if p.stream--; p.stream == 0 {
			p.warm = len(p.data) / pipeStep // what was written past the caches is in none
		}
		stream(dst, src)
	case p.warm > 0:
		p.warm--
		copy(dst, src)
	default:
		start := time.Now()
		copy(dst, src)
		if int(time.Since(start)) > len(src)/streamSlow {
			p.stream = streamFor
		}
	}
}

// wrote tells that n bytes of room are filled, and reports whether the reader must be woken.
func (p *pipe) wrote(n int) (wake bool) {
	p.c.written.Add(uint64(n))
	return p.c.readerSleeps.Load() != 0 && p.c.readerSleeps.CompareAndSwap(1, 0)
}

// took tells that n bytes were read, and reports whether the writer must be woken.
func (p *pipe) took(n int) (wake bool) {
	p.c.read.Add(uint64(n))
	return p.c.writerSleeps.Load() != 0 && p.c.writerSleeps.CompareAndSwap(1, 0)
}

// padded returns the length that n bytes take in a pipe.
func padded(n int) int { return (n + pipeAlign - 1) / pipeAlign * pipeAlign }
