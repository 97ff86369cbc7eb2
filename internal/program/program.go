// Package program holds what a traced function computes: calls of primitives, and
// the values between them. It knows nothing of tensors or of tracing, so that
// passes and executors are small and tested alone.
package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Kind tells where a value comes from.
type Kind uint8

// The kinds of value.
const (
	Temp     Kind = iota // computed by a step; unset memory if no step does
	Arg                  // an argument of the function
	State                // what a variable held before
	Captured             // a tensor from outside that no variable holds
	Const                // host data made inside
)

func (k Kind) String() string {
	return op.EnumName("Kind", int(k), "temp", "arg", "state", "captured", "const")
}

// Value is a block of memory that is written once.
type Value struct {
	Kind  Kind
	Spec  op.Spec // of what was first in it
	Bytes int
	Block *memory.Block // Captured: its memory
	Data  []byte        // Const: its contents
	Site  callsite.Site // Captured: who used it first; Const: who made it

	On backend.Device // where it is; nil in a program that knows no device
}

// Ref is a tensor of a program: how elements lie in a value's memory. A Value of
// -1 is a constant number, as in backend.View.
type Ref struct {
	Value int
	View  backend.View // without a block
}

// Step is a call of a primitive.
type Step struct {
	Op    op.ID
	Attrs op.Attrs
	Late  func() op.Attrs // where attributes are asked for again at each run
	In    []Ref
	Out   Ref
	More  []Ref
	Site  callsite.Site

	Parts []Step // the steps that a fused one stands for, in their order
	Alone string // why an elementwise step is not part of a fused one, where that was tried
	Again bool   // it computes what was computed before: see Recompute
}

// Name returns the op, or the ops that a fused step stands for: "add+exp+mul", or
// where there are many "add+exp+mul+5 more".
func (s *Step) Name() string {
	const enough = 5
	if o, ok := s.Attrs.(Outside); ok {
		return s.Op.String() + " " + o.Work.Name()
	}
	if len(s.Parts) == 0 {
		return s.Op.String()
	}
	var names []string
	for i := range s.Parts {
		if i == enough-1 && len(s.Parts) > enough {
			names = append(names, fmt.Sprintf("%d more", len(s.Parts)-i))
			break
		}
		names = append(names, s.Parts[i].Op.String())
	}
	return strings.Join(names, "+")
}

// Sites returns the lines that the step comes from, each once, the first one first.
func (s *Step) Sites() []string {
	if len(s.Parts) == 0 {
		return []string{s.Site.String()}
	}
	var l []string
	for i := range s.Parts {
		if at := s.Parts[i].Site.String(); !slices.Contains(l, at) {
			l = append(l, at)
		}
	}
	return l
}

// Outs calls f with each result of the step.
func (s *Step) Outs(f func(*Ref)) {
	f(&s.Out)
	for i := range s.More {
		f(&s.More[i])
	}
}

// Program is a traced function. Results list what outlives a run: the function's results
// and what variables hold afterwards. It runs on one device; a function that computes on
// several is cut by [Program.Split].
type Program struct {
	Values  []Value
	Steps   []Step
	Results []Ref
}

// size is the room that a contiguous tensor needs.
func size(v *backend.View) int { return v.Elements() * v.DType.Size() }

// Verify reports what is wrong with a program: a value that is used before it is
// made or made twice, a result that does not fill its memory from the start.
func (p *Program) Verify() error {
	made := make([]bool, len(p.Values))
	written := make([]bool, len(p.Values))
	for i, v := range p.Values {
		made[i] = v.Kind != Temp
	}
	for _, s := range p.Steps { // memory that nobody writes has no elements that count
		s.Outs(func(r *Ref) {
			if r.Value >= 0 && r.Value < len(written) {
				written[r.Value] = true
			}
		})
	}
	use := func(what string, r *Ref) error {
		switch {
		case r.Value == -1:
			return nil
		case r.Value < 0 || r.Value >= len(p.Values):
			return fmt.Errorf("%s: there is no value %d", what, r.Value)
		case !made[r.Value] && (written[r.Value] || r.View.Elements() > 0):
			return fmt.Errorf("%s: value %d is used before it is made", what, r.Value)
		}
		return nil
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		what := fmt.Sprintf("step %d (%s)", i, s.Op)
		for k := range s.In {
			if err := use(what, &s.In[k]); err != nil {
				return err
			}
		}
		var err error
		s.Outs(func(r *Ref) {
			switch {
			case err != nil:
			case r.Value < 0 || r.Value >= len(p.Values):
				err = fmt.Errorf("%s: there is no value %d", what, r.Value)
			case made[r.Value]:
				err = fmt.Errorf("%s: value %d is made twice", what, r.Value)
			case r.View.Offset != 0 || !r.View.Contiguous() && !r.View.ChannelsLast() || size(&r.View) > p.Values[r.Value].Bytes:
				err = fmt.Errorf("%s: its result does not lie at the start of value %d", what, r.Value)
			default:
				made[r.Value] = true
			}
		})
		if err != nil {
			return err
		}
	}
	for i := range p.Results {
		if err := use(fmt.Sprintf("result %d", i), &p.Results[i]); err != nil {
			return err
		}
	}
	return nil
}
