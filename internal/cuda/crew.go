//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"sync/atomic"
)

// crew copies pieces of host memory with several threads, each its stripe of
// every piece. The members watch for the next piece instead of sleeping, because
// waking them would take longer than a stripe; they exist for one large copy.
type crew struct {
	members int
	pieces  []piece
	given   atomic.Int64 // pieces that may be copied
}

type piece struct {
	dst, src []byte
	done     atomic.Int64 // members that are through
}

// crewMin is the size from which a copy is worth more than one thread.
const crewMin = 4 << 20

var crewSize = min(12, runtime.GOMAXPROCS(0))

// newCrew makes a crew for a copy of total bytes in pieces of size.
func newCrew(total, size int) *crew {
	c := &crew{pieces: make([]piece, ceil(total, size))}
	if total < crewMin || crewSize < 2 {
		return c
	}
	c.members = crewSize
	for i := range c.members {
		go c.work(i)
	}
	return c
}

func (c *crew) work(member int) {
	for k := range c.pieces {
		for c.given.Load() <= int64(k) {
			if c.given.Load() < 0 {
				return
			}
			runtime.Gosched()
		}
		p := &c.pieces[k]
		step := (len(p.src)/c.members + 4096) &^ 4095
		if from := member * step; from < len(p.src) {
			to := min(from+step, len(p.src))
			copy(p.dst[from:to], p.src[from:to])
		}
		p.done.Add(1)
	}
}

// copy gives the crew the next piece. A crew without members copies it at once.
func (c *crew) copy(dst, src []byte) {
	if c.members == 0 {
		copy(dst, src)
		return
	}
	k := c.given.Load()
	c.pieces[k].dst, c.pieces[k].src = dst, src
	c.given.Add(1)
}

// wait returns when piece k is copied.
func (c *crew) wait(k int) {
	for c.members > 0 && c.pieces[k].done.Load() < int64(c.members) {
		runtime.Gosched()
	}
}

// dismiss sends the members home, also when not all pieces were given. What
// they were given is copied first.
func (c *crew) dismiss() {
	if c.members == 0 {
		return
	}
	given := c.given.Load()
	for k := range given {
		c.wait(int(k))
	}
	if given < int64(len(c.pieces)) {
		c.given.Store(-1)
	}
}
