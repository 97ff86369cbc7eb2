package memory

import "sync"

// Group is a set of blocks that are freed together. A block is in one group at
// most: it leaves the old one when it joins another.
//
// A block refers to its group, so a group must not be part of anything that has
// a finalizer: the collector never frees such a cycle.
type Group struct {
	mu     sync.Mutex
	blocks []*Block // each knows its place
	closed bool
}

// NewGroup makes an empty group.
func NewGroup() *Group { return &Group{blocks: make([]*Block, 0, 16)} }

// Add puts b, which is in no group, into g. It reports false if g was freed.
func (g *Group) Add(b *Block) bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	b.at = int32(len(g.blocks))
	g.blocks = append(g.blocks, b)
	b.group.Store(g)
	g.mu.Unlock()
	return true
}

// Leave takes b out of its group and reports whether it was in one that is not
// freed yet. Nobody frees b then but its owner.
func (b *Block) Leave() bool {
	for {
		g := b.group.Load()
		if g == nil {
			return false
		}
		g.mu.Lock()
		if b.group.Load() != g { // somebody else was faster
			g.mu.Unlock()
			continue
		}
		open := !g.closed
		if open {
			last := len(g.blocks) - 1
			g.blocks[b.at] = g.blocks[last]
			g.blocks[b.at].at = b.at
			g.blocks[last] = nil
			g.blocks = g.blocks[:last]
		}
		b.group.Store(nil)
		g.mu.Unlock()
		return open
	}
}

// Free frees all blocks of g. It takes no new ones afterwards. A second call does
// nothing.
func (g *Group) Free() {
	g.mu.Lock()
	blocks := g.blocks
	g.blocks, g.closed = nil, true
	g.mu.Unlock()
	for _, b := range blocks {
		b.Free()
	}
}

// Len returns the number of blocks in g.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.blocks)
}
