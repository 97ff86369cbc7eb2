package nn

import (
	"reflect"
	"strings"

	"github.com/locusml/locus"
)

// Check reports what was probably forgotten in a network, or returns nil: tags that
// cannot mean anything, tensors in exported fields without a tag, layers in fields
// that are not exported, parameters that record no gradient, and a network with
// nothing to train. Package train refuses a network in which it finds something.
// Mark an exported tensor that is neither parameter nor buffer with the tag
// `nn:"-"`.
func Check(m any) error {
	c := checker{seen: map[place]bool{}}
	var params []Entry
	err := locus.Try(func() {
		params = Parameters(m)
		c.check(reflect.ValueOf(m), "")
	})
	if err != nil {
		return err // a tag
	}
	for _, e := range params {
		if v := e.Value(); e.raw() && v != nil && !v.RequiresGrad() {
			c.add(e.Name + " is a parameter that records no gradient: make it with .RequireGrad()")
		}
	}
	if len(params) == 0 {
		c.found = append([]string{"the network has no parameters"}, c.found...)
	}
	if len(c.found) == 0 {
		return nil
	}
	return &locus.Error{Kind: locus.ErrArgument, Op: "nn.Check", Msg: strings.Join(c.found, "; "),
		Fix: "parameters are exported fields of type *nn.Parameter, those of layers in exported fields, and *locus.Tensor fields with the tag `nn:\"param\"`"}
}

// checker looks for what a walker passes over.
type checker struct {
	found []string
	seen  map[place]bool
}

func (c *checker) add(what string) { c.found = append(c.found, what) }

func (c *checker) check(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			c.check(v.Elem(), path)
		}
	case reflect.Pointer:
		at := place{v.Type(), v.Pointer()}
		if !v.IsNil() && !holdsTensor(v.Type()) && !c.seen[at] {
			c.seen[at] = true
			c.check(v.Elem(), path)
		}
	case reflect.Struct:
		c.structure(v, path)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if k := v.Type().Elem().Kind(); k == reflect.Pointer || k == reflect.Interface || k == reflect.Struct {
				c.check(v.Index(i), path)
			}
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String && contains(v.Type(), nil) {
			c.add(path + " is a map without names, so that its parameters are not the network's: make its keys strings, or tag it `nn:\"-\"`")
		}
		for _, k := range v.MapKeys() {
			c.check(v.MapIndex(k), path)
		}
	}
}

func (c *checker) structure(v reflect.Value, path string) {
	t := v.Type()
	if t.PkgPath() == parameterType.Elem().PkgPath() && !opens(v) { // our own layers are in order
		return
	}
	for _, f := range fieldsOf(t) {
		c.check(v.Field(f.index), join(path, t.Field(f.index).Name))
	}
	for i := range t.NumField() {
		f := t.Field(i)
		where := join(path, f.Name)
		switch tag := f.Tag.Get("nn"); {
		case tag != "":
		case f.IsExported() && leafOf(f.Type) == tensorType:
			c.add(where + " is a *locus.Tensor without a tag: tag it `nn:\"param\"`, `nn:\"buffer\"` or `nn:\"-\"`")
		case !f.IsExported() && !f.Anonymous && c.hidden(v.Field(i)):
			c.add(where + " is not exported, so that its parameters are not the network's: call it " + strings.ToUpper(f.Name[:1]) + f.Name[1:] + ", or tag it `nn:\"-\"`")
		}
	}
}

// hidden reports whether a field that is not exported has parameters in it.
func (c *checker) hidden(v reflect.Value) bool {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	if (v.Kind() == reflect.Slice || v.Kind() == reflect.Array) && leafOf(v.Type()).Kind() == reflect.Interface {
		for i := range v.Len() {
			if c.hidden(v.Index(i)) {
				return true
			}
		}
		return false
	}
	return v.Kind() != reflect.Interface && contains(v.Type(), nil)
}
