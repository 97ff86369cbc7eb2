package nn

import (
	"reflect"

	"github.com/locusml/locus"
)

// ModeSetter is a layer that behaves differently in training: dropout, batch
// normalization.
type ModeSetter interface{ SetTraining(on bool) }

// KeySetter is a layer that draws at random in training: dropout. With the same
// key it draws the same.
type KeySetter interface{ SetKey(key locus.Key) }

// Train puts a network into training mode, in which layers are made. It
// returns m.
func Train[M any](m M) M { return setMode(m, true) }

// Eval puts a network into inference mode: no dropout, running statistics.
func Eval[M any](m M) M { return setMode(m, false) }

func setMode[M any](m M, on bool) M {
	eachLayer(m, func(_ string, l any) {
		if s, ok := l.(ModeSetter); ok {
			s.SetTraining(on)
		}
	})
	return m
}

// Reseed makes every layer that draws at random do so from key: layer i, in the
// order of fields, from key.Fold(i). It returns m.
func Reseed[M any](m M, key locus.Key) M {
	i := uint64(0)
	eachLayer(m, func(_ string, l any) {
		if s, ok := l.(KeySetter); ok {
			s.SetKey(key.Fold(i))
			i++
		}
	})
	return m
}

// PartSetter is a layer that draws at random for each example of a batch: dropout. See
// [SetPart].
type PartSetter interface{ SetPart(first, size int) }

// SetPart tells the layers of a network that they see a part of each batch from now on: size
// examples, of which the first is number first of the batch. Layers that draw at random for
// each example, along the first axis, then draw what these examples get in a network that
// sees the whole batch: replicas with the same key and the same number of draws so far
// ([SetCounters]), each with its part, drop what one network drops. See [locus.Key.Part].
// A size of 0 is the whole batch. It returns m.
//
//	from, to := collective.Part(batch, g.Rank(), g.Size())
//	nn.SetPart(net, from, to-from)
func SetPart[M any](m M, first, size int) M {
	eachLayer(m, func(_ string, l any) {
		if s, ok := l.(PartSetter); ok {
			s.SetPart(first, size)
		}
	})
	return m
}

// eachLayer calls f with the path and a pointer to every struct of a network, in
// the order of its fields.
func eachLayer(m any, f func(path string, layer any)) {
	w := newWalker()
	w.visit = func(v reflect.Value, path string) {
		if l := addressed(v); l != nil {
			f(path, l)
		}
	}
	w.walk(reflect.ValueOf(m), "", "")
}

// addressed returns a pointer to a struct, or nil where there is none.
func addressed(v reflect.Value) any {
	if v.CanAddr() && v.Addr().CanInterface() {
		return v.Addr().Interface()
	}
	return nil
}
