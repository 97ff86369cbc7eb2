package memory

import (
	"runtime"
	"weak"
)

// A pool keeps a weak pointer to every block and slab that the collector is to free,
// and looks through them after each collection. So what a collection has found can be
// used as soon as it is over: finalizers would run some time later, in a goroutine
// that nobody can wait for.

// watched is a block or a slab, and what is to be done when nothing refers to it.
type watched struct {
	block weak.Pointer[Block]
	large *large
	slab  weak.Pointer[slab]
	cut   *cut // of a slab; nil of a block
	// region is the block's.
	region Region
}

func (w *watched) dead() bool {
	if w.cut != nil {
		return w.slab.Value() == nil
	}
	return w.block.Value() == nil
}

// size returns the bytes that come free.
func (w *watched) size() int64 {
	if w.cut != nil {
		return int64(w.cut.region.Size)
	}
	return int64(w.region.Size)
}

// watch begins to look after w; p.mu is held.
func (p *Pool) watch(w watched) {
	if len(p.watching) == 0 && !p.listening {
		p.listening = true
		p.listen()
	}
	if w.large != nil {
		w.large.at = len(p.watching)
	}
	p.watching = append(p.watching, w)
	p.managed += w.size()
}

// forget undoes watch for the i-th; p.mu is held.
func (p *Pool) forget(i int) {
	p.managed -= p.watching[i].size()
	last := len(p.watching) - 1
	p.watching[i] = p.watching[last]
	if l := p.watching[i].large; l != nil {
		l.at = i
	}
	p.watching[last] = watched{}
	p.watching = p.watching[:last]
}

// manage lets the collector free b.
func (p *Pool) manage(b *Block) {
	w := weak.Make(b)
	p.mu.Lock()
	l := b.large.Load()
	if l == nil || l.managed { // its memory was taken over meanwhile, or nothing is new
		p.mu.Unlock()
		return
	}
	l.managed = true
	p.watch(watched{block: w, large: l, region: b.Region})
	due := p.due()
	p.mu.Unlock()
	if due {
		p.collectAhead()
	}
}

// unmanage undoes manage.
func (p *Pool) unmanage(b *Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := b.large.Load(); l != nil && l.managed {
		l.managed = false
		p.forget(l.at)
	}
}

// listen looks through what is watched after the next collection, whoever asked for
// it. It does not keep the pool alive.
func (p *Pool) listen() {
	type sentinel [16]int64 // tiny objects share their end
	runtime.AddCleanup(new(sentinel), func(w weak.Pointer[Pool]) {
		p := w.Value()
		if p == nil {
			return
		}
		go func() {
			collecting.Lock()
			p.sweep()
			collecting.Unlock()
			p.listen()
		}()
	}, weak.Make(p))
}

// sweepAtOnce is how many blocks are looked at before others get the pool's lock.
const sweepAtOnce = 512

// sweep takes back what the last collection has found. The caller has collecting:
// looking at a block while another collection marks would keep the block until the
// next one.
func (p *Pool) sweep() {
	p.mu.Lock()
	i := len(p.watching)
	p.mu.Unlock()
	// From the end down: what takes the place of one that is forgotten comes from
	// behind, and was looked at.
	for i > 0 {
		var ended []watched
		p.mu.Lock()
		i = min(i, len(p.watching))
		for to := max(i-sweepAtOnce, 0); i > to; {
			i--
			if w := p.watching[i]; w.dead() {
				p.forget(i)
				ended = append(ended, w)
			}
		}
		p.mu.Unlock()
		p.found(ended)
	}
}

// found takes back what nothing refers to any more.
func (p *Pool) found(ended []watched) {
	for i := range ended {
		if l := ended[i].large; l != nil {
			l.join() // without the lock: it may wait for the device
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ended {
		w := &ended[i]
		p.collected += w.size()
		if c := w.cut; c != nil {
			p.stats.InUse -= c.live
			p.stats.Frees += c.blocks
			p.cache(c.region)
			continue
		}
		p.stats.InUse -= w.size()
		p.stats.Frees++
		p.retire(w.large, w.region)
	}
}
