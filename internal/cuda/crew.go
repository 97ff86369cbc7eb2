//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"sync/atomic"
	"time"
)

// crew copies between slots and a program's memory with several threads: one does not
// reach the speed of the bus. A copy goes piece by piece, one per slot; members take
// the next chunk that nobody has, so that none waits for a slow one. Whoever leads
// the crew hands out pieces, in order, and helps while it waits.
type crew struct {
	pieces []piece
	given  atomic.Int64 // pieces that may be copied; below 0 when the crew is sent home
	next   atomic.Int64 // the next chunk, counted over all pieces
}

type piece struct {
	from, to int // bytes of the whole
	dst, src []byte
	left     atomic.Int64 // chunks that are not copied yet
}

const (
	crewMin   = 1 << 20   // the size from which a copy is worth more than one thread
	crewChunk = 128 << 10 // what a member copies at a time
)

// More threads are no faster, and the machine has other things to do.
var crewSize = min(10, runtime.GOMAXPROCS(0))

// newCrew makes a crew for a copy of total bytes in pieces of at most size, a
// number of chunks. Nothing is on the bus before the first piece is filled, or after
// the last has arrived, so one end has small ones; and the largest are at most an
// eighth of the whole, since at the other end the crew has nothing to do.
func newCrew(total, size int, smallLast bool) *crew {
	const eight = 8 * crewChunk
	size = min(size, max(1, ceil(total, 8*eight))*eight)
	c := &crew{pieces: cut(total, size, smallLast)}
	if total >= crewMin {
		for range crewSize - 1 {
			go c.work()
		}
	}
	return c
}

// cut divides a copy into pieces: of 1/8 of size, 1/8, 1/4, 1/2 and then of size,
// or the other way round.
func cut(total, size int, smallLast bool) []piece {
	var sizes []int
	for at, n := 0, size/8; at < total; at += n {
		if k := len(sizes); k > 1 {
			n = min(n*2, size)
		}
		sizes = append(sizes, n)
	}
	pieces := make([]piece, len(sizes))
	at := 0
	for i := range pieces {
		n := sizes[i]
		if smallLast {
			n = sizes[len(sizes)-1-i]
		}
		pieces[i].from, pieces[i].to = at, min(at+n, total)
		at += n
	}
	for pieces[len(pieces)-1].from >= total {
		pieces = pieces[:len(pieces)-1]
	}
	return pieces
}

// work is a member's life.
func (c *crew) work() {
	for k := 0; ; {
		i := c.next.Add(1) - 1
		if k = c.pieceOf(i, k); k == len(c.pieces) || !c.await(int64(k)) {
			return
		}
		c.copyChunk(i, k)
	}
}

// pieceOf returns the piece of chunk i, which is not before k; after the last chunk,
// the number of pieces.
func (c *crew) pieceOf(i int64, k int) int {
	for k < len(c.pieces) && c.pieces[k].to <= int(i)*crewChunk {
		k++
	}
	return k
}

// await returns when piece k is given, or false if it never will be. The next
// one comes as a rule sooner than a thread that sleeps could wake up; if it does
// not, the device is busy with something else.
func (c *crew) await(k int64) bool {
	var start time.Time
	for n := 0; ; n++ {
		switch g := c.given.Load(); {
		case g < 0:
			return false
		case g > k:
			return true
		case n < 100:
		case n == 100:
			start = time.Now()
		case n%16 != 0:
			runtime.Gosched()
		case time.Since(start) > 200*time.Microsecond:
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func (c *crew) copyChunk(i int64, k int) {
	p := &c.pieces[k]
	from := int(i)*crewChunk - p.from
	to := min(from+crewChunk, len(p.src))
	copy(p.dst[from:to], p.src[from:to])
	p.left.Add(-1)
}

// give lets the crew copy the next piece.
func (c *crew) give(dst, src []byte) {
	k := c.given.Load()
	p := &c.pieces[k]
	p.dst, p.src = dst, src
	p.left.Store(int64(ceil(len(src), crewChunk)))
	c.given.Store(k + 1)
}

// copied reports whether piece k, which was given, is copied.
func (c *crew) copied(k int) bool { return c.pieces[k].left.Load() == 0 }

// wait returns when piece k, which was given, is copied.
func (c *crew) wait(k int) {
	last := c.pieces[c.given.Load()-1].to
	for n := 0; !c.copied(k); n++ {
		if i := c.next.Load(); int(i)*crewChunk < last {
			if c.next.CompareAndSwap(i, i+1) {
				c.copyChunk(i, c.pieceOf(i, 0))
			}
		} else if n > 100 {
			runtime.Gosched()
		}
	}
}

// dismiss sends the members home, also when not all pieces were given. What they
// were given is copied first.
func (c *crew) dismiss() {
	for k := range c.given.Load() {
		c.wait(int(k))
	}
	c.given.Store(-1)
}
