package optim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Group is a set of parameters that is updated differently from the rest.
type Group struct {
	Match       func(e nn.Entry) bool // chooses parameters; see [Named]
	LR          float64               // as a multiple of the optimizer's rate; 0 means 1
	WeightDecay *float64              // in place of the optimizer's; nil keeps that
}

// Named chooses the parameters whose name contains one of the given parts: one or several
// consecutive components of the name, such as "bias" or "net.0".
func Named(parts ...string) func(e nn.Entry) bool {
	parts = slices.Clone(parts)
	return func(e nn.Entry) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains("."+e.Name+".", "."+p+".") })
	}
}

// member is how a parameter of a group is updated.
type member struct {
	rule  rule
	scale float64
	group int // from 1; 0 is the rest
}

// WithGroups makes o update groups of its parameters with rates and decays of
// their own. A parameter belongs to the first group that matches it; a group that
// matches none is an error, and so is a second call. It returns o.
//
//	opt := optim.AdamW(params, 1e-3, optim.AdamOptions{}).WithGroups(
//		optim.Group{Match: optim.Named("bias"), WeightDecay: new(0.0)},
//		optim.Group{Match: optim.Named("backbone"), LR: 0.1})
func (o *Optimizer) WithGroups(groups ...Group) *Optimizer {
	const op = "optim.WithGroups"
	if o.ready().parts != nil {
		fail(locus.ErrArgument, op, "the optimizer has groups already", "pass all of them in one call")
	}
	list := make([]member, len(o.params))
	for i := range list {
		list[i] = member{o.rule, 1, 0}
	}
	for k, g := range groups {
		check("WithGroups", atLeastZero("the rate of a group", g.LR))
		if g.Match == nil {
			fail(locus.ErrArgument, op, fmt.Sprintf("group %d has no Match", k), "choose parameters with optim.Named")
		}
		r := o.rule
		if g.WeightDecay != nil {
			r = withDecay(op, r, *g.WeightDecay)
		}
		found := false
		for i, e := range o.params {
			if list[i].group == 0 && g.Match(e) {
				found = true
				list[i] = member{r, or(g.LR, 1), k + 1}
			}
		}
		if !found {
			fail(locus.ErrArgument, op, fmt.Sprintf("group %d matches no parameter that is left; there are %s", k, strings.Join(o.names, ", ")), "")
		}
	}
	o.parts = list
	return o
}

// withDecay returns a rule with another weight decay.
func withDecay(op string, r rule, decay float64) rule {
	v := reflect.Indirect(reflect.ValueOf(r))
	c := reflect.New(v.Type())
	c.Elem().Set(v)
	if f := c.Elem().FieldByName("WeightDecay"); f.IsValid() && f.CanSet() {
		f.SetFloat(decay)
	} else {
		fail(locus.ErrArgument, op, r.name()+" has no weight decay", "")
	}
	out := c.Interface().(rule)
	check("WithGroups", out.check())
	return out
}

// of returns the rule and the rate of parameter i.
func (o *Optimizer) of(i int) (rule, float64) {
	if o.parts == nil {
		return o.rule, o.lr
	}
	return o.parts[i].rule, o.lr * o.parts[i].scale
}

// GroupOf returns the number of the group that a parameter of the given name is in,
// from 1 in the order of WithGroups; 0 is the rest, and -1 none of the optimizer's.
func (o *Optimizer) GroupOf(name string) int {
	i := slices.Index(o.ready().names, name)
	switch {
	case i < 0:
		return -1
	case o.parts == nil:
		return 0
	}
	return o.parts[i].group
}

// groups describes the groups, in order, for people and records.
func (o *Optimizer) groups() []string {
	var out []string
	for i := range o.parts {
		g := o.parts[i]
		for len(out) < g.group {
			out = append(out, "")
		}
		if g.group > 0 && out[g.group-1] == "" {
			text := fmt.Sprintf("lr ×%g", g.scale)
			if f := reflect.Indirect(reflect.ValueOf(g.rule)).FieldByName("WeightDecay"); f.IsValid() && g.rule != o.rule {
				text += fmt.Sprintf(", WeightDecay %g", f.Float())
			}
			n := 0
			for _, other := range o.parts {
				if other.group == g.group {
					n++
				}
			}
			out[g.group-1] = fmt.Sprintf("%d parameters: %s", n, text)
		}
	}
	return out
}
