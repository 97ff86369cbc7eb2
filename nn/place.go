package nn

import (
	"reflect"

	"github.com/locusml/locus"
)

// To moves a network to device d, in place: every parameter and buffer that is
// not there already is replaced by a copy on d, and lazy layers make theirs
// there. It returns m.
func To[M any](m M, d locus.Device) M {
	for _, e := range State(m) {
		if e.param != nil {
			e.param.device, e.param.placed = d, true
		}
		if v := e.Value(); v != nil && v.Device() != d {
			e.Set(v.Detach().To(d))
		}
	}
	return m
}

// Cast converts a network's floating-point parameters and buffers to another
// floating-point type, in place; lazy layers make theirs so. It returns m.
func Cast[M any](m M, dt locus.DType) M {
	if !dt.IsFloat() {
		fail(locus.ErrDType, "nn.Cast", "the parameters of a network are floating-point numbers, not "+dt.String(), "")
	}
	for _, e := range State(m) {
		if e.param != nil {
			e.param.known.dtype = dt
		}
		if v := e.Value(); v != nil && v.DType().IsFloat() && v.DType() != dt {
			e.Set(v.Detach().Cast(dt))
		}
	}
	return m
}

// CopyTo makes a replica of a network on device d: a network of the same
// structure whose parameters and buffers are always new memory, also when d is
// where m lives. What is not a tensor is copied as it stands, except functions,
// channels and pointers to things that hold no tensors, which are shared.
func CopyTo[M any](m M, d locus.Device) M {
	out := cloneWith(m, func(t *locus.Tensor) *locus.Tensor { return t.Detach().CopyTo(d) })
	for _, e := range State(out) {
		if e.param != nil {
			e.param.device, e.param.placed = d, true
		}
	}
	return out
}

// Device gives the device of a network's parameters. It is an error that names
// two of them if they are on different devices; a network without parameters
// is on the CPU.
func Device(m any) (locus.Device, error) {
	var first *Entry
	for _, e := range State(m) {
		v := e.Value()
		if v == nil {
			continue
		}
		if first == nil {
			first = &e
			continue
		}
		if a := first.Value(); a.Device() != v.Device() {
			return locus.Device{}, &locus.Error{Kind: locus.ErrDevice, Op: "nn.Device",
				Msg: "the network is on two devices: " + first.Name + " on " + a.Device().String() + ", " + e.Name + " on " + v.Device().String(),
				Fix: "move all of it with nn.To(net, device)"}
		}
	}
	if first == nil {
		for _, e := range State(m) {
			if e.param != nil {
				return e.param.Device(), nil
			}
		}
		return locus.CPU(), nil
	}
	return first.Value().Device(), nil
}

// cloneWith makes a network of m's structure with tensor applied to each of its
// tensors.
func cloneWith[M any](m M, tensor func(*locus.Tensor) *locus.Tensor) M {
	c := cloner{done: map[place]reflect.Value{}, tensor: tensor}
	return c.clone(reflect.ValueOf(&m).Elem()).Interface().(M)
}

// cloner copies the structure of a network.
type cloner struct {
	done   map[place]reflect.Value // pointers that were copied: what is shared stays shared
	tensor func(*locus.Tensor) *locus.Tensor
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
		out := reflect.New(v.Type()).Elem()
		out.Set(v) // unexported fields come along as they are
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(c.clone(v.Field(i)))
			}
		}
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

func (c *cloner) pointer(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	here := place{v.Type(), v.Pointer()}
	if done, ok := c.done[here]; ok {
		return done
	}
	switch p := v.Interface().(type) {
	case *Parameter:
		q := p.unmade()
		if t := p.Value(); t != nil {
			q.Set(c.tensor(t))
		}
		c.done[here] = reflect.ValueOf(q)
		return c.done[here]
	case *locus.Tensor:
		t := c.tensor(p)
		if p.RequiresGrad() {
			t = t.RequireGrad()
		}
		c.done[here] = reflect.ValueOf(t)
		return c.done[here]
	case cloneable:
		out := reflect.ValueOf(p.cloneLayer())
		c.done[here] = out
		return out
	}
	if v.Elem().Kind() != reflect.Struct {
		return v
	}
	out := reflect.New(v.Type().Elem())
	c.done[here] = out
	out.Elem().Set(c.clone(v.Elem()))
	return out
}

// cloneable is a layer whose state is not in exported fields.
type cloneable interface{ cloneLayer() any }
