package program

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// join makes one step of the steps that move variables towards something else, as
// running statistics do: in a network with 50 such layers 100 launches would cost more
// than their arithmetic. A Blend that is written over the variable, and whose result no
// step reads, becomes part of an UpdateAll, which has the same bits. supports says for
// which types the device has that.
func (p *Program) join(donated []Donation, supports func(dtype.DType) bool) {
	type kind struct {
		scales op.Scales
		dtype  dtype.DType
	}
	from, last := map[int]bool{}, p.lastUses()
	to := map[int]int{} // from what
	for _, d := range donated {
		from[d.From], to[d.To] = true, d.From
	}
	groups := map[kind][]int{}
	for i := range p.Steps {
		s := &p.Steps[i]
		old, ok := to[s.Out.Value]
		// A variable that another one moves towards must be read before it is written.
		if s.Op != op.Blend || s.Late != nil || !ok || last[s.Out.Value] > i || s.In[0].Value != old || from[s.In[1].Value] {
			continue
		}
		if t := s.Out.View.DType; (t == dtype.Float32 || t == dtype.Float64) && supports(t) {
			k := kind{s.Attrs.(op.Scales), t}
			groups[k] = append(groups[k], i)
		}
	}
	gone := make([]bool, len(p.Steps))
	for k, list := range groups {
		if len(list) < 2 {
			continue
		}
		// In the place of the last: their results are not read, and what they read is
		// there. No step behind the first may fail, for that was donated.
		end := &p.Steps[list[len(list)-1]]
		all := Step{Op: op.UpdateAll, Attrs: op.Update{Rule: op.SGDRule, Keep: k.scales.A, Rate: -k.scales.B}, Site: end.Site}
		for n, i := range list {
			s := &p.Steps[i]
			all.In = append(all.In, s.In[0], s.In[1])
			if n == 0 {
				all.Out = s.Out
			} else {
				all.More = append(all.More, s.Out)
			}
			gone[i] = i != list[len(list)-1]
		}
		*end = all
	}
	if slices.Contains(gone, true) {
		i := -1
		p.Steps = slices.DeleteFunc(p.Steps, func(Step) bool { i++; return gone[i] })
	}
}
