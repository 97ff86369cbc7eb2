package program

import (
	"fmt"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Where the values of a recording are: final addresses, and what moves between calls.

// lease lays the temporary values out in the arena until back is called. A program that
// waits for others, which may want the arena, has memory of its own instead.
func (r *Recorded) lease() (back func(), err error) {
	if !r.p.Waits() {
		region, _, err := r.pool.Arena().Lease(r.plan.Arena, true, arenaLabel)
		if err != nil {
			return nil, err
		}
		r.layOut(region)
		return r.pool.Arena().Return, nil
	}
	if r.private.Size == 0 {
		if r.private, err = r.pool.Lend(r.plan.Arena, arenaLabel()); err != nil {
			return nil, err
		}
	}
	r.layOut(r.private)
	return func() {}, nil
}

// renew makes room for what a variable is set to: in the place of what it held if that
// can be taken over.
func (r *Recorded) renew(v int) error {
	if from := r.offers[r.plan.Over[v]]; from != nil {
		if b := r.taking.take(from, v); b != nil {
			r.blocks[v] = b
			r.move(v, b.Region, 0)
			return nil
		}
	}
	if err := r.allocate(v); err != nil {
		return err
	}
	r.miss = true
	r.misses[v]++
	r.move(v, r.blocks[v].Region, 0)
	return nil
}

// layOut puts the temporary values into the arena, where it is another one than at the
// last run.
func (r *Recorded) layOut(region memory.Region) {
	if region == r.region {
		return
	}
	r.region = region
	for v, at := range r.plan.Offset {
		if at >= 0 {
			r.move(v, region.Slice(at, r.p.Values[v].Bytes), 0)
		}
	}
}

// move puts a value in a place. A recording with another place is dropped.
func (r *Recorded) move(v int, to memory.Region, offset int) {
	a := address{to, offset}
	if r.at[v] == a {
		return
	}
	r.at[v] = a
	r.frame.bind(v, r.pool.Piece(to), offset) // what is queued keeps its own
	r.drop()
}

// piece returns the memory of a value in the arena.
func (r *Recorded) piece(v int) *memory.Block { return r.frame.binds[v][0].view.Block }

// bind takes note of the memory of a value from outside.
func (r *Recorded) bind(b *Binding) {
	v := b.Value
	r.blocks[v], r.offers[v] = b.Block, b
	switch a := (address{b.Block.Region, b.Offset}); {
	case len(r.frame.binds[v]) == 0:
		return // nobody reads it
	case r.fixed[v] != nil:
		r.move(v, r.fixed[v].Region, 0)
		return
	case r.at[v] == a || r.at[v].Size == 0 || r.donor[v] || r.why != "" || !r.copyable(v):
		r.move(v, a.Region, a.offset)
		return
	}
	// It lies elsewhere than at the last run: from now on it is copied.
	bytes := op.Elements(r.p.Values[v].Spec.Shape) * r.p.Values[v].Spec.DType.Size()
	if r.copied += bytes; !r.worth() {
		r.why = fmt.Sprintf("each run would copy %d bytes of arguments and results that lie elsewhere at each call", r.copied)
		r.move(v, b.Block.Region, b.Offset)
		return
	}
	f, err := r.pool.Allocate(bytes, r.labels[v])
	if err != nil {
		r.why = "there is no room for copies of arguments"
		r.move(v, b.Block.Region, b.Offset)
		return
	}
	f.Manage()
	r.fixed[v] = f
	r.move(v, f.Region, 0)
}

// copyable reports whether a value from outside can be copied to another place: all that
// the steps read of it lies in order from its start.
func (r *Recorded) copyable(v int) bool {
	n := op.Elements(r.p.Values[v].Spec.Shape)
	size := r.p.Values[v].Spec.DType.Size()
	for _, s := range r.frame.binds[v] {
		low, high := s.offset, s.offset // of what the view reads
		for i, k := range s.view.Shape {
			switch step := s.view.Strides[i]; {
			case k == 0:
				low, high = 0, -1
			case step < 0:
				low += (k - 1) * step
			default:
				high += (k - 1) * step
			}
		}
		if low < 0 || (high+1)*s.view.DType.Size() > n*size {
			return false
		}
	}
	return true
}

// copy queues a copy of a value's elements.
func (r *Recorded) copy(to, from *memory.Block, offset, v int) error {
	c := r.copies[v]
	if c == nil {
		spec := &r.p.Values[v].Spec
		w := backend.View{Shape: []int{op.Elements(spec.Shape)}, Strides: []int{1}, DType: spec.DType}
		c = &backend.Call{Op: op.Copy, In: []backend.View{w}, Out: w, Step: r.p}
		r.copies[v] = c
	}
	if c.Out.Shape[0] == 0 {
		return nil
	}
	c.In[0].Block, c.In[0].Offset, c.Out.Block = from, offset, to
	err := backend.Queue(r.device, c)
	c.In[0].Block, c.Out.Block = nil, nil
	return err
}

func (r *Recorded) allocate(v int) error {
	b, err := r.pool.Allocate(r.p.Values[v].Bytes, r.labels[v])
	if err != nil {
		if i := r.makers[v]; i >= 0 {
			err = &StepError{&r.p.Steps[i], err}
		}
		return err
	}
	r.blocks[v] = b
	r.made = append(r.made, v)
	return nil
}

// Over is Planned's Over.
func (r *Recorded) Over(v int) bool { return r.taking.over[v] }

// Clear forgets the blocks of the last run.
func (r *Recorded) Clear() {
	clear(r.blocks)
	clear(r.taking.over)
}
