package program

import "github.com/locusml/locus/internal/memory"

// taking is what a run has taken over.
type taking struct {
	list []taken
	over []bool // by value: it is written over another one, until the next run
}

type taken struct {
	binding  *Binding
	value    int
	old, new *memory.Block
}

// take takes the memory of a binding over for a value. It returns nil if that is not
// possible.
func (t *taking) take(b *Binding, value int) *memory.Block {
	if !b.Offered || b.Spare != nil && !b.Spare.Spare() {
		return nil
	}
	n, ok := b.Block.TakeHeld()
	if !ok {
		if b.Spare != nil {
			b.Spare.Unspare()
		}
		return nil
	}
	t.list = append(t.list, taken{b, value, b.Block, n})
	t.over[value] = true
	return n
}

// undo returns everything: the run has failed before it wrote anything over.
func (t *taking) undo() {
	for _, x := range t.list {
		x.new.GiveBack(x.old)
		t.over[x.value] = false
		if x.binding.Spare != nil {
			x.binding.Spare.Unspare()
		}
	}
	t.forget()
}

// forget ends the run.
func (t *taking) forget() {
	clear(t.list)
	t.list = t.list[:0]
}
