package locus

import (
	"fmt"
	"io"
	"time"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/sketch"
)

// DrawOptions say how a program is drawn.
type DrawOptions struct {
	// Signature chooses one of the programs of a function that was called with several
	// signatures. 0 is the one of the last call; see Explain.
	Signature int
	// Times adds the times that the steps took in a profile of calls.
	Times *Timeline
	// Boxes is the number of boxes from which steps that stand next to each other share
	// one, those of one line first. 0 is 64; below 0 every step has a box of its own.
	Boxes int
}

// defaultBoxes is what a reader can look over.
const defaultBoxes = 64

// WriteSVG writes a picture of the program as an SVG document: a box per step, in the
// order in which they run, and what passes between them. A fused step is one box with
// its parts; tips have the details.
func (c *Compiled) WriteSVG(w io.Writer, o DrawOptions) error {
	g, err := c.graph("Compiled.WriteSVG", w, o)
	if err != nil {
		return err
	}
	return g.WriteSVG(w)
}

// WriteDOT writes the program in the language of Graphviz, for other tools to lay out.
func (c *Compiled) WriteDOT(w io.Writer, o DrawOptions) error {
	g, err := c.graph("Compiled.WriteDOT", w, o)
	if err != nil {
		return err
	}
	return g.WriteDOT(w)
}

// WriteMemorySVG writes a picture of the memory that the program plans with as an SVG
// document: steps go to the right, addresses of the arena go up, and each block is a
// temporary value. Below stand results and variables, whose memory is elsewhere. Of the
// options only Signature counts.
func (c *Compiled) WriteMemorySVG(w io.Writer, o DrawOptions) error {
	const name = "Compiled.WriteMemorySVG"
	p, err := c.drawn(name, w, o)
	if err != nil {
		return err
	}
	defer c.mu.Unlock()
	e, ok := p.exec.(*program.Executor)
	if !ok {
		return newError(name, &op.Problem{Kind: ErrArgument, Msg: "the function computes on several devices, which have a plan each", Fix: "see Explain, or compile what each device computes"}, nil)
	}
	return e.Memory(p.names("Memory of a compiled function")).WriteSVG(w)
}

// graph returns a program to be drawn.
func (c *Compiled) graph(name string, w io.Writer, o DrawOptions) (*sketch.Graph, error) {
	p, err := c.drawn(name, w, o)
	if err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	var times []time.Duration
	if o.Times != nil {
		t := timesOf(p.body, o.Times)
		if t.calls == 0 || t.sum == 0 {
			return nil, newError(name, &op.Problem{Kind: ErrArgument, Msg: "no step of the program ran in the profile of DrawOptions.Times",
				Fix: "take it with locus.Profile around calls of the function; one that computes on several devices has only the tables of Times"}, nil)
		}
		times = make([]time.Duration, len(t.steps))
		for i := range times {
			times[i] = t.steps[i] / time.Duration(t.calls)
		}
	}
	limit := o.Boxes
	if limit == 0 {
		limit = defaultBoxes
	}
	return p.body.Graph(p.names("A compiled function"), times, max(limit, 0)), nil
}

// drawn returns the plan that is to be drawn, with c locked, or an error.
func (c *Compiled) drawn(name string, w io.Writer, o DrawOptions) (*plan, error) {
	c.made(name)
	gate.Check(name, gate.Given("the writer", w))
	c.mu.Lock()
	var problem *op.Problem
	switch {
	case len(c.plans) == 0:
		problem = &op.Problem{Kind: ErrArgument, Msg: "there is no program yet", Fix: "call the function first"}
	case o.Signature < 0 || o.Signature >= len(c.plans):
		problem = &op.Problem{Kind: ErrArgument, Msg: fmt.Sprintf("there is no signature %d; there are %d", o.Signature, len(c.plans)), Fix: "see Explain"}
	case c.plans[o.Signature].body == nil:
		problem = &op.Problem{Kind: ErrArgument, Msg: "there is no program: " + c.plans[o.Signature].eager, Fix: "see Fallback"}
	default:
		return c.plans[o.Signature], nil
	}
	c.mu.Unlock()
	return nil, newError(name, problem, nil)
}

// names says what the values of a plan are.
func (p *plan) names(title string) *program.Names {
	n := &program.Names{Title: title, Value: make([]string, len(p.body.Values)), Made: make([][]string, len(p.body.Values))}
	for i, v := range p.in {
		n.Value[v] = fmt.Sprintf("argument %d", i)
	}
	made := func(out int, format string, args ...any) {
		if v := p.body.Results[out].Value; v >= 0 {
			n.Made[v] = append(n.Made[v], fmt.Sprintf(format, args...))
		}
	}
	for i, r := range p.results {
		if !r.none && r.arg < 0 {
			made(r.out, "result %d", i)
		}
	}
	for i, v := range p.vars {
		if v.value >= 0 && n.Value[v.value] == "" {
			n.Value[v.value] = fmt.Sprintf("variable %d", i)
		}
		if v.out >= 0 {
			made(v.out, "variable %d", i)
		}
	}
	for i, l := range p.leaves {
		if l.value >= 0 && n.Value[l.value] == "" {
			n.Value[l.value] = fmt.Sprintf("gradient %d", i)
		}
		if l.out >= 0 {
			made(l.out, "gradient %d", i)
		}
	}
	for i, v := range p.body.Values {
		if n.Value[i] != "" {
			continue
		}
		switch v.Kind {
		case program.Captured:
			n.Value[i] = "a tensor from " + v.Site.String()
		case program.Const:
			n.Value[i] = "data of " + v.Site.String()
		}
	}
	return n
}
