package nn

import (
	"reflect"

	"github.com/locusml/locus"
)

// cloner copies the structure of a network. What becomes of its tensors and of
// the state of its layers depends on what the copy is for: see [CopyTo] and [Bind].
type cloner struct {
	parameter func(*Parameter) *Parameter
	buffer    func(*Buffer) *Buffer
	tensor    func(*locus.Tensor) *locus.Tensor // tensors in fields of their own
	random    func(*randomState) *randomState   // what dropout draws from
	shared    bool                              // tables that layers remember are the original's

	done map[place]reflect.Value // pointers that were copied: what is shared stays shared
}

// cloneable is a layer with state in fields that are not exported.
type cloneable interface{ cloneLayer(c *cloner) any }

// cloneAll copies a network.
func cloneAll[M any](c *cloner, m M) M {
	c.done = map[place]reflect.Value{}
	out, _ := c.clone(reflect.ValueOf(&m).Elem()).Interface().(M) // nil of a nil network
	return out
}

func (c *cloner) clone(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type()).Elem()
		out.Set(c.clone(v.Elem()))
		return out
	case reflect.Pointer:
		return c.pointer(v)
	case reflect.Struct:
		if l, ok := addressed(v).(cloneable); ok {
			return reflect.ValueOf(l.cloneLayer(c)).Elem()
		}
		out := reflect.New(v.Type()).Elem()
		out.Set(v) // fields that are not exported come along as they are
		c.fields(out, v)
		return out
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(c.clone(v.Index(i)))
		}
		return out
	case reflect.Array:
		out := reflect.New(v.Type()).Elem()
		for i := range v.Len() {
			out.Index(i).Set(c.clone(v.Index(i)))
		}
		return out
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeMap(v.Type())
		for _, k := range v.MapKeys() {
			out.SetMapIndex(k, c.clone(v.MapIndex(k)))
		}
		return out
	}
	return v
}

// fields copies the exported fields of a struct, and those of embedded structs.
func (c *cloner) fields(out, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.IsExported():
			out.Field(i).Set(c.clone(v.Field(i)))
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			c.fields(out.Field(i), v.Field(i))
		}
	}
}

func (c *cloner) pointer(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	here := place{v.Type(), v.Pointer()}
	if done, ok := c.done[here]; ok {
		return done
	}
	var out any
	switch p := v.Interface().(type) {
	case *Parameter:
		out = c.parameter(p)
	case *Buffer:
		out = c.buffer(p)
	case *locus.Tensor:
		out = c.tensor(p)
	case cloneable:
		out = p.cloneLayer(c)
	}
	if out != nil {
		c.done[here] = reflect.ValueOf(out)
		return c.done[here]
	}
	if v.Elem().Kind() != reflect.Struct {
		return v
	}
	fresh := reflect.New(v.Type().Elem())
	c.done[here] = fresh
	fresh.Elem().Set(c.clone(v.Elem()))
	return fresh
}

// cloned copies a part of a layer that copies itself; what is reached twice is
// copied once.
func cloned[T any](c *cloner, part T) T {
	out, _ := c.clone(reflect.ValueOf(&part).Elem()).Interface().(T) // nil of a nil interface
	return out
}
