package program

import (
	"cmp"
	"slices"
)

// Plan says where the values of a program lie while it runs.
type Plan struct {
	Arena  int   // bytes of the memory that temporary values share
	Offset []int // by value: where in the arena; -1 for those that have memory of their own
	Over   []int // by value: the variable's old value that it is written over, or -1
	First  int   // the first step that writes over such a value; the number of steps if there is none
	Reused int   // values that are written over an operand
	Sum    int   // bytes of all values in the arena, if none shared memory
}

// align is what offsets are multiples of: enough for all devices.
const align = 256

// buffer is memory that one value after the other lies in.
type buffer struct {
	size, offset int
	born, dies   int // steps
	taken        int // the last step that wrote over what was in it
}

// Plan lays the temporary values out in one piece of memory: two of them share a place
// if their lives do not overlap. A result of an op that may write over its operand does
// so if nobody needs the operand afterwards. What outlives a run has memory of its own
// unless inside is set. The program must not change afterwards.
//
// The largest come first, each to the lowest place that is free during its life. In
// practice that is within a few percent of the best plan, which would take too long
// to find.
func (p *Program) Plan(donated []Donation, inside bool) *Plan {
	n := len(p.Values)
	plan := &Plan{Offset: slices.Repeat([]int{-1}, n), Over: slices.Repeat([]int{-1}, n)}
	makers := p.makers()
	plan.First = len(p.Steps)
	for _, d := range donated {
		plan.Over[d.To] = d.From
		plan.First = min(plan.First, makers[d.To])
	}
	last := p.lastUses()
	own := make([]bool, n) // not in the arena
	for _, d := range donated {
		own[d.To] = true
	}
	for _, r := range p.Results {
		if r.Value < 0 {
			continue
		}
		if own[r.Value] = own[r.Value] || !inside; inside {
			last[r.Value] = len(p.Steps)
		}
	}
	in := make([]*buffer, n) // by value
	var all []*buffer
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Outs(func(r *Ref) {
			v := r.Value
			if own[v] {
				return
			}
			bytes := p.Values[v].Bytes
			plan.Sum += round(bytes)
			if b := p.reuse(s, i, v, in, last); b != nil {
				b.dies, b.taken, in[v] = last[v], i, b
				plan.Reused++
				return
			}
			in[v] = &buffer{size: round(bytes), born: i, dies: last[v], taken: -1}
			all = append(all, in[v])
		})
	}
	plan.Arena = place(all)
	for v, b := range in {
		switch {
		case b != nil:
			plan.Offset[v] = b.offset
		case p.Values[v].Kind == Temp && !own[v] && last[v] >= 0:
			plan.Offset[v] = 0 // without elements, so that no step makes it
			plan.Arena = max(plan.Arena, round(p.Values[v].Bytes))
		}
	}
	return plan
}

// reuse returns the buffer of an operand that value v, which step i makes, may be
// written over, or nil.
func (p *Program) reuse(s *Step, i, v int, in []*buffer, last []int) *buffer {
	for k := range s.In {
		from := s.In[k].Value
		if from < 0 || in[from] == nil || last[from] != i || in[from].taken == i || in[from].size < round(p.Values[v].Bytes) {
			continue
		}
		if s.over(v, from) {
			return in[from]
		}
	}
	return nil
}

func round(bytes int) int { return (max(bytes, 1) + align - 1) / align * align }

// place assigns an offset to every buffer and returns the room that all of them need.
func place(all []*buffer) (room int) {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *buffer) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.dies-b.born, a.dies-a.born))
	})
	var placed []*buffer // by offset
	for _, b := range order {
		at := 0
		for _, o := range placed {
			if o.born > b.dies || b.born > o.dies {
				continue
			}
			if o.offset >= at+b.size {
				break
			}
			at = max(at, o.offset+o.size)
		}
		b.offset = at
		room = max(room, at+b.size)
		i, _ := slices.BinarySearchFunc(placed, b, func(a, b *buffer) int { return cmp.Compare(a.offset, b.offset) })
		placed = slices.Insert(placed, i, b)
	}
	return room
}
