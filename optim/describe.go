package optim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Name returns the kind of the optimizer, such as "AdamW".
func (o *Optimizer) Name() string { return o.ready().rule.name() }

// Options returns the options of the optimizer by name, as they take effect, with
// defaults filled in: "Momentum", "Beta1". The learning rate is [Optimizer.LR].
func (o *Optimizer) Options() map[string]any {
	out := map[string]any{}
	v := reflect.Indirect(reflect.ValueOf(o.ready().rule))
	if v.Kind() != reflect.Struct {
		return out
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		switch x := v.FieldByIndex(f.Index); {
		case x.CanFloat():
			out[f.Name] = x.Float()
		case x.CanInt():
			out[f.Name] = x.Int()
		case x.Kind() == reflect.Bool:
			out[f.Name] = x.Bool()
		}
	}
	if g := o.groups(); g != nil {
		out["Groups"] = g
	}
	return out
}

// String describes the optimizer in one line.
func (o *Optimizer) String() string {
	if o == nil || o.rule == nil {
		return "no optimizer"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s(lr %g", o.rule.name(), o.lr)
	options := o.Options()
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if v := options[name]; !reflect.ValueOf(v).IsZero() {
			fmt.Fprintf(&b, ", %s %v", name, v)
		}
	}
	elements := 0
	for _, e := range o.params {
		if v := e.Value(); v != nil {
			elements += v.Len()
		}
	}
	fmt.Fprintf(&b, "): %d numbers in %d parameters, %d steps", elements, len(o.params), o.steps)
	return b.String()
}
