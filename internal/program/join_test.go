package program

import (
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// Steps that move variables become one, unless something stands against it.
func TestJoin(t *testing.T) {
	some := op.Scales{A: 0.9, B: 0.1}
	blend := func(s op.Scales, out, old, toward int) Step {
		return Step{Op: op.Blend, Attrs: s, In: []Ref{ref(old), ref(toward)}, Out: ref(out)}
	}
	exp := func(out, in int) Step { return Step{Op: op.Exp, In: []Ref{ref(in)}, Out: ref(out)} }
	all := func(dtype.DType) bool { return true }
	for name, c := range map[string]struct {
		steps    []Step
		supports func(dtype.DType) bool
		want     int // steps that are left
	}{
		"three":                  {[]Step{blend(some, 5, 1, 0), exp(8, 0), blend(some, 6, 2, 0), blend(some, 7, 3, 0)}, all, 2},
		"one":                    {[]Step{blend(some, 5, 1, 0)}, all, 1},
		"other scales":           {[]Step{blend(some, 5, 1, 0), blend(op.Scales{A: 0.5, B: 0.5}, 6, 2, 0)}, all, 2},
		"a reader":               {[]Step{blend(some, 5, 1, 0), exp(8, 5), blend(some, 6, 2, 0)}, all, 3},
		"not written over":       {[]Step{blend(some, 5, 1, 0), blend(some, 9, 2, 0)}, all, 2},
		"towards a variable":     {[]Step{blend(some, 5, 1, 2), blend(some, 6, 2, 0), blend(some, 7, 3, 0)}, all, 2},
		"the other way around":   {[]Step{blend(some, 5, 0, 1), blend(some, 6, 0, 2)}, all, 2},
		"no kernel for it":       {[]Step{blend(some, 5, 1, 0), blend(some, 6, 2, 0)}, func(dtype.DType) bool { return false }, 2},
		"attributes at each run": {[]Step{{Op: op.Blend, Attrs: some, Late: func() op.Attrs { return some }, In: []Ref{ref(1), ref(0)}, Out: ref(5)}, blend(some, 6, 2, 0)}, all, 2},
	} {
		p := &Program{Values: []Value{{Kind: Arg, Spec: three, Bytes: 12}}, Steps: c.steps}
		for range 3 {
			p.Values = append(p.Values, Value{Kind: State, Spec: three, Bytes: 12})
		}
		for range 6 {
			p.Values = append(p.Values, Value{Spec: three, Bytes: 12})
		}
		for i := range c.steps {
			p.Results = append(p.Results, c.steps[i].Out)
		}
		made := map[int]bool{}
		for i := range c.steps {
			made[c.steps[i].Out.Value] = true
		}
		var donated []Donation
		for i := 1; i <= 3; i++ {
			if made[4+i] {
				donated = append(donated, Donation{i, 4 + i})
			}
		}
		p.join(donated, c.supports)
		if err := p.Verify(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(p.Steps) != c.want {
			t.Errorf("%s: %d steps, want %d\n%s", name, len(p.Steps), c.want, p)
		}
		for _, s := range p.Steps {
			if s.Op != op.UpdateAll {
				continue
			}
			for r := range len(s.More) + 1 {
				out := s.result(r).Value
				if !s.over(out, out-4) {
					t.Errorf("%s: result %d is not written over its variable", name, r)
				}
			}
		}
	}
}
