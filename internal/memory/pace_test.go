package memory

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// addresses is a source of addresses without memory.
type addresses struct {
	next  atomic.Int64
	total int64
}

func (a *addresses) Allocate(size int) (Region, error) {
	return Region{Addr: uintptr(a.next.Add(int64(size))), Size: size}, nil
}
func (a *addresses) Free(Region)            {}
func (a *addresses) Memory() (int64, int64) { return a.total, a.total }

// card is the clock of a device that works behind the program's back.
type card struct{ until time.Time }

func (c *card) queue(d time.Duration) {
	if now := time.Now(); c.until.Before(now) {
		c.until = now
	}
	c.until = c.until.Add(d)
}

func (c *card) mark() (idle func() bool) {
	until := c.until
	return func() bool { return !time.Now().Before(until) }
}

func (c *card) wait() {
	for time.Now().Before(c.until) {
		runtime.Gosched()
	}
}

// loop runs a program that computes one result after the other and keeps none, and
// waits for the device after every ten turns. It returns the time per turn.
func (c *card) loop(p *Pool, turns, ops, size int, op time.Duration, end func(*Block)) time.Duration {
	from := time.Now()
	for i := range turns {
		var held []*Block
		for range ops {
			b, err := p.Allocate(size, label)
			if err != nil {
				panic(err)
			}
			end(b)
			held = append(held, b)
			c.queue(op)
			for spin := time.Now(); time.Since(spin) < 3*time.Microsecond; { // what queueing costs
			}
		}
		if i%10 == 9 {
			c.wait()
		}
		runtime.KeepAlive(held)
	}
	c.wait()
	return time.Since(from) / time.Duration(turns)
}

// Plain code, whose results the collector finds, beside code that frees them, on a
// device that takes as long as an H200 for 64M float32.
func BenchmarkPlain(b *testing.B) {
	for name, c := range map[string]struct {
		ops int
		op  time.Duration
	}{"sum": {1, 187 * time.Microsecond}, "expression": {3, 148 * time.Microsecond}} {
		b.Run(name, func(b *testing.B) {
			var k card
			p := NewPool(&addresses{}).Behind(k.mark)
			const size = 256 << 20
			x, y := must(p.Allocate(size, label)), must(p.Allocate(size, label))
			x.Manage()
			y.Manage()
			p.Collect()
			k.loop(p, 100, c.ops, size, c.op, (*Block).Manage)
			before := p.Stats()
			from := time.Now()
			k.loop(p, b.N, c.ops, size, c.op, (*Block).Manage)
			ratio := float64(time.Since(from)) / float64(b.N) / float64(c.op*time.Duration(c.ops))
			s := p.Stats()
			b.ReportMetric(ratio, "×card")
			b.ReportMetric(float64(s.Peak)/size, "peak")
			b.ReportMetric(float64(s.Collections-before.Collections)/float64(b.N), "gcs/op")
			b.ReportMetric(float64((s.Waited-before.Waited).Microseconds())/float64(b.N), "waited-µs/op")
			runtime.KeepAlive(x)
			runtime.KeepAlive(y)
		})
	}
}

func must(b *Block, err error) *Block {
	if err != nil {
		panic(err)
	}
	return b
}
