package program

import "github.com/locusml/locus/internal/op"

// Prune leaves out steps whose results nobody uses, and returns how many. Steps
// that look at indices stay: what is out of range there is an error. So do collectives:
// other ranks count on them.
func (p *Program) Prune() int {
	need := make([]bool, len(p.Values))
	for _, r := range p.Results {
		if r.Value >= 0 {
			need[r.Value] = true
		}
	}
	keep := make([]bool, len(p.Steps))
	for i := len(p.Steps) - 1; i >= 0; i-- {
		s := &p.Steps[i]
		keep[i] = mayFail(s.Op)
		s.Outs(func(r *Ref) { keep[i] = keep[i] || need[r.Value] })
		if !keep[i] {
			continue
		}
		for _, r := range s.In {
			if r.Value >= 0 {
				need[r.Value] = true
			}
		}
	}
	n := 0
	kept := p.Steps[:0:0]
	for i, s := range p.Steps {
		if keep[i] {
			kept = append(kept, s)
		} else {
			n++
		}
	}
	p.Steps = kept
	return n
}

// mayFail reports whether the op fails with some operands of the right type and
// shape.
func mayFail(id op.ID) bool {
	switch id {
	case op.Take, op.Gather, op.ScatterAdd, op.Scatter, op.IndexAdd, op.CrossEntropy, op.CrossEntropyGrad, op.CTC, op.CTCGrad, op.Begin, op.Await:
		return true
	}
	return false
}
